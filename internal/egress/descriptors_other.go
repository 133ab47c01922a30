//go:build !unix

package egress

func descriptorLimit() uint64 { return 0 }
