package torture_test

// clonedCuts returns how many of the cuts are made by cloning the disk.
func clonedCuts() int { return 0 }
