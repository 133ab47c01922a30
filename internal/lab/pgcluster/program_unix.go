//go:build unix

package pgcluster

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// unprivileged returns how to start children. They get a process group of
// their own, so that an interrupt at the terminal reaches only our process, and
// another user when we are root, whom the server refuses to serve.
func unprivileged() (*syscall.SysProcAttr, *owner, error) {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if os.Geteuid() != 0 {
		return attr, nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(uidErr, gidErr); err != nil {
			return nil, nil, fmt.Errorf("ids of user %s: %w", name, err)
		}
		attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		return attr, &owner{name, int(uid), int(gid)}, nil
	}
	return nil, nil, errors.New("running as root and neither user postgres nor nobody exists")
}
