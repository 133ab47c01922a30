package torture_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// recordingImpossible says why writes cannot be recorded here; empty: they can.
const recordingImpossible = ""

// recorder runs a server under ptrace and writes down every call that changes
// its data folder, in the order in which they ended. The server is static and
// draws its own calls, so there is nothing to preload; and a file system of our
// own would need privileges.
//
// Only the calls of interest stop the server: it starts as a copy of this test
// binary, which sets a filter on itself and then becomes the server.
type recorder struct {
	dir string
	pid int

	mu     sync.Mutex
	ops    []op
	inodes map[uint64]int // number of the file by inode
	names  map[string]int // number of the file by name
	files  int

	entered map[int]int // by thread in a call: how many had ended when it began
	frozen  bool        // calls that begin now wait for the end of the process
	failed  error
}

const shimVariable = "TORTURE_BECOME"

// What ptrace and seccomp call their things; package syscall does not have all.
const (
	optionSysGood  = 0x1
	optionClone    = 0x8
	optionExec     = 0x10
	optionSeccomp  = 0x80
	optionExitKill = 0x100000

	eventSeccomp = 7

	waitAll      = 0x40000000 // __WALL
	waitNoThread = 0x20000000 // __WNOTHREAD: children of this thread only

	sysSeccomp        = 317
	sysProcessVMReadv = 310
	sysRenameat2      = 316
	sysPwritev2       = 328
)

// traced are the calls that can change a folder or make changes durable. What
// is written to a mapping would not be seen, but the server maps only the
// -shm file, which is made anew after a crash.
var traced = []uint32{
	syscall.SYS_WRITE, syscall.SYS_PWRITE64, syscall.SYS_WRITEV, syscall.SYS_PWRITEV, sysPwritev2,
	syscall.SYS_OPEN, syscall.SYS_OPENAT, syscall.SYS_CREAT,
	syscall.SYS_FSYNC, syscall.SYS_FDATASYNC, syscall.SYS_SYNC_FILE_RANGE,
	syscall.SYS_FTRUNCATE, syscall.SYS_TRUNCATE, syscall.SYS_FALLOCATE,
	syscall.SYS_RENAME, syscall.SYS_RENAMEAT, sysRenameat2,
	syscall.SYS_UNLINK, syscall.SYS_UNLINKAT, syscall.SYS_LINK, syscall.SYS_LINKAT,
}

// becomeTraced is run in the child: it asks to be stopped at the traced calls
// and becomes the program that TORTURE_BECOME names.
func becomeTraced(program string) {
	runtime.LockOSThread() // the filter belongs to the thread that sets it
	err := setFilter()
	if err == nil {
		env := make([]string, 0, len(os.Environ()))
		for _, one := range os.Environ() {
			if !strings.HasPrefix(one, shimVariable+"=") {
				env = append(env, one)
			}
		}
		err = syscall.Exec(program, append([]string{program}, os.Args[1:]...), env)
	}
	fmt.Fprintln(os.Stderr, "become", program, err)
	os.Exit(1)
}

// setFilter installs a program for the kernel that picks the traced calls.
func setFilter() error {
	const (
		load, jumpEqual, answer = 0x20, 0x15, 0x06
		allow, trace            = 0x7fff0000, 0x7ff00000
		setNoNewPrivileges      = 38
		setModeFilter           = 1
	)
	type instruction struct {
		code  uint16
		jt, _ uint8
		k     uint32
	}
	n := len(traced)
	program := []instruction{{code: load, k: 0}} // the number of the call
	for i, call := range traced {
		program = append(program, instruction{code: jumpEqual, jt: uint8(n - i), k: call})
	}
	program = append(program, instruction{code: answer, k: allow}, instruction{code: answer, k: trace})
	descriptor := struct {
		n       uint16
		program *instruction
	}{uint16(len(program)), &program[0]}
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, setNoNewPrivileges, 1, 0, 0, 0, 0); errno != 0 {
		return fmt.Errorf("give up privileges: %w", errno)
	}
	if _, _, errno := syscall.RawSyscall(sysSeccomp, setModeFilter, 0, uintptr(unsafe.Pointer(&descriptor))); errno != 0 {
		return fmt.Errorf("set filter: %w", errno)
	}
	runtime.KeepAlive(program)
	return nil
}

func newRecorder() *recorder {
	return &recorder{inodes: make(map[uint64]int), names: make(map[string]int), entered: make(map[int]int)}
}

// stamp returns how many calls have ended. What somebody learns from the
// server after a call ended is learnt at a later stamp: the server is stopped
// until the call is written down.
func (r *recorder) stamp() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return int64(len(r.ops))
}

// recorded returns all calls so far.
func (r *recorder) recorded() ([]op, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ops, r.failed
}

// start runs a command, which must begin with an empty folder.
func (r *recorder) start(cmd *exec.Cmd, dir string, gone chan<- struct{}) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	whole, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	r.dir = whole
	cmd.Env = append(cmd.Env, shimVariable+"="+cmd.Path)
	cmd.Path = os.Args[0]
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true, Setpgid: true}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // ptrace obeys only the thread that began
		if err := r.attach(cmd); err != nil {
			started <- err
			return
		}
		started <- nil
		r.follow()
		close(gone)
	}()
	return <-started
}

func (r *recorder) attach(cmd *exec.Cmd) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	r.pid = cmd.Process.Pid
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(r.pid, &status, waitAll, nil); err != nil {
		return fmt.Errorf("wait for the traced process: %w", err)
	}
	const options = optionSysGood | optionClone | optionExec | optionSeccomp | optionExitKill
	if err := syscall.PtraceSetOptions(r.pid, options); err != nil {
		return errors.Join(fmt.Errorf("trace: %w", err), cmd.Process.Kill())
	}
	return syscall.PtraceCont(r.pid, 0)
}

// follow serves the stops of all threads until the process has ended.
func (r *recorder) follow() {
	for {
		var status syscall.WaitStatus
		tid, err := syscall.Wait4(-1, &status, waitAll|waitNoThread, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil { // no thread is left
			return
		}
		if status.Exited() || status.Signaled() {
			if tid == r.pid {
				return
			}
			continue
		}
		r.stopped(tid, status)
	}
}

// stopped handles one stop and lets the thread go on. A thread that is killed
// meanwhile cannot be asked anything, which is no failure.
func (r *recorder) stopped(tid int, status syscall.WaitStatus) {
	signal, event := status.StopSignal(), int(status)>>16
	switch {
	case signal == syscall.SIGTRAP|0x80: // the end of a call
		r.leave(tid)
		_ = syscall.PtraceCont(tid, 0)
	case event == eventSeccomp:
		switch of, held := r.enter(tid); {
		case held:
		case of:
			_ = syscall.PtraceSyscall(tid, 0) // stop again at its end
		default:
			_ = syscall.PtraceCont(tid, 0)
		}
	case event != 0, signal == syscall.SIGSTOP, signal == syscall.SIGTRAP: // threads that begin, the exec
		_ = syscall.PtraceCont(tid, 0)
	default:
		_ = syscall.PtraceCont(tid, int(signal))
	}
}

// enter says whether the end of the call is of interest, and whether the call
// must not begin any more.
func (r *recorder) enter(tid int) (of, held bool) {
	var regs syscall.PtraceRegs
	if syscall.PtraceGetRegs(tid, &regs) != nil {
		return false, false
	}
	switch regs.Orig_rax {
	case syscall.SYS_WRITE, syscall.SYS_WRITEV: // mostly sockets
		path, _ := r.descriptor(regs.Rdi)
		if !r.ours(path) {
			return false, false
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.frozen {
		r.entered[tid] = len(r.ops)
	}
	return true, r.frozen
}

// freeze lets no further call begin and waits for those that have. From then
// on the folder does not change, and the recording must say what is in it.
func (r *recorder) freeze(limit time.Duration) error {
	for deadline := time.Now().Add(limit); ; time.Sleep(time.Millisecond) {
		r.mu.Lock()
		r.frozen = true
		inside := len(r.entered)
		r.mu.Unlock()
		if inside == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d calls did not end within %v", inside, limit)
		}
	}
}

// leave writes the call down, when it succeeded and concerns the folder.
func (r *recorder) leave(tid int) {
	var regs syscall.PtraceRegs
	err := syscall.PtraceGetRegs(tid, &regs)
	r.mu.Lock()
	defer r.mu.Unlock()
	defer delete(r.entered, tid)
	if err != nil || int64(regs.Rax) < 0 {
		return
	}
	if err := r.note(tid, &regs); err != nil && r.failed == nil {
		r.failed = err
	}
}

func (r *recorder) note(tid int, regs *syscall.PtraceRegs) error {
	switch regs.Orig_rax {
	case syscall.SYS_OPEN, syscall.SYS_OPENAT, syscall.SYS_CREAT:
		return r.opened(regs)
	case syscall.SYS_WRITE, syscall.SYS_PWRITE64:
		return r.written(regs)
	case syscall.SYS_FSYNC, syscall.SYS_FDATASYNC:
		path, ino := r.descriptor(regs.Rdi)
		if path == r.dir {
			r.ops = append(r.ops, op{kind: opSyncDir, begin: r.entered[tid]})
		} else if r.ours(path) {
			r.ops = append(r.ops, op{kind: opSync, file: r.inodes[ino], begin: r.entered[tid]})
		}
		return nil
	case syscall.SYS_FTRUNCATE:
		if path, ino := r.descriptor(regs.Rdi); r.ours(path) {
			r.ops = append(r.ops, op{kind: opTruncate, file: r.inodes[ino], offset: int64(regs.Rsi)})
		}
		return nil
	case syscall.SYS_FALLOCATE, syscall.SYS_WRITEV, syscall.SYS_PWRITEV, sysPwritev2, syscall.SYS_SYNC_FILE_RANGE:
		if path, _ := r.descriptor(regs.Rdi); r.ours(path) {
			return fmt.Errorf("call %d on %s: not understood", regs.Orig_rax, path)
		}
		return nil
	default:
		return r.renamed(tid, regs)
	}
}

// opened notes a file that is new, or that was emptied.
func (r *recorder) opened(regs *syscall.PtraceRegs) error {
	path, ino := r.descriptor(regs.Rax)
	if !r.ours(path) {
		return nil
	}
	flags := regs.Rdx
	switch regs.Orig_rax {
	case syscall.SYS_OPEN:
		flags = regs.Rsi
	case syscall.SYS_CREAT:
		flags = syscall.O_CREAT | syscall.O_TRUNC
	}
	name := filepath.Base(path)
	number, known := r.names[name]
	switch {
	case !known:
		r.files++
		number = r.files
		r.names[name], r.inodes[ino] = number, number
		r.ops = append(r.ops, op{kind: opCreate, file: number, name: name})
	case flags&syscall.O_TRUNC != 0:
		r.ops = append(r.ops, op{kind: opTruncate, file: number})
	}
	return nil
}

func (r *recorder) written(regs *syscall.PtraceRegs) error {
	path, ino := r.descriptor(regs.Rdi)
	n := int(regs.Rax)
	if n == 0 || !r.ours(path) {
		return nil
	}
	offset := int64(regs.R10)
	if regs.Orig_rax == syscall.SYS_WRITE {
		end, err := r.position(regs.Rdi)
		if err != nil {
			return err
		}
		offset = end - int64(n)
	}
	data, err := r.memory(regs.Rsi, n)
	if err != nil {
		return fmt.Errorf("read what was written to %s: %w", path, err)
	}
	r.ops = append(r.ops, op{kind: opWrite, file: r.inodes[ino], offset: offset, data: data})
	return nil
}

// renamed notes calls by name. Paths are absolute, or the call is refused:
// the server works with absolute paths when it is given one.
func (r *recorder) renamed(tid int, regs *syscall.PtraceRegs) error {
	var from, to uint64
	switch regs.Orig_rax {
	case syscall.SYS_RENAME, syscall.SYS_LINK:
		from, to = regs.Rdi, regs.Rsi
	case syscall.SYS_RENAMEAT, sysRenameat2, syscall.SYS_LINKAT:
		from, to = regs.Rsi, regs.R10
	case syscall.SYS_UNLINK, syscall.SYS_TRUNCATE:
		from = regs.Rdi
	case syscall.SYS_UNLINKAT:
		from = regs.Rsi
	}
	path, err := r.text(from)
	if err != nil {
		return err
	}
	name := filepath.Base(path)
	switch regs.Orig_rax {
	case syscall.SYS_UNLINK, syscall.SYS_UNLINKAT:
		if r.ours(path) {
			r.ops = append(r.ops, op{kind: opRemove, file: r.names[name], name: name})
			delete(r.names, name)
		}
		return nil
	case syscall.SYS_RENAME, syscall.SYS_RENAMEAT, sysRenameat2:
		target, err := r.text(to)
		if err != nil {
			return err
		}
		if !r.ours(path) && !r.ours(target) {
			return nil
		}
		number, known := r.names[name]
		if !known || !r.ours(target) {
			return fmt.Errorf("rename %s to %s: not understood", path, target)
		}
		delete(r.names, name)
		r.names[filepath.Base(target)] = number
		r.ops = append(r.ops, op{kind: opRename, file: number, name: name, to: filepath.Base(target)})
		return nil
	default: // links, truncate by name
		if r.ours(path) {
			return fmt.Errorf("thread %d: call %d on %s: not understood", tid, regs.Orig_rax, path)
		}
		return nil
	}
}

// ours reports whether a path is a file in the folder whose bytes count. The
// -shm file is an index in memory that happens to have a name.
func (r *recorder) ours(path string) bool {
	return filepath.Dir(path) == r.dir && !strings.HasSuffix(path, "-shm")
}

// descriptor returns what a descriptor of the server is.
func (r *recorder) descriptor(fd uint64) (path string, inode uint64) {
	link := "/proc/" + strconv.Itoa(r.pid) + "/fd/" + strconv.FormatUint(fd, 10)
	path, err := os.Readlink(link)
	if err != nil {
		return "", 0
	}
	path = strings.TrimSuffix(path, " (deleted)")
	if filepath.Dir(path) != r.dir {
		return path, 0
	}
	var info syscall.Stat_t
	if syscall.Stat(link, &info) != nil {
		return "", 0
	}
	return path, info.Ino
}

// position returns where a descriptor stands in its file.
func (r *recorder) position(fd uint64) (int64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%d", r.pid, fd))
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(data), "\n")
	return strconv.ParseInt(strings.TrimSpace(strings.TrimPrefix(first, "pos:")), 10, 64)
}

// memory copies bytes of the server.
func (r *recorder) memory(address uint64, n int) ([]byte, error) {
	data := make([]byte, n)
	type span struct {
		base uint64
		len  uint64
	}
	local := span{uint64(uintptr(unsafe.Pointer(&data[0]))), uint64(n)}
	remote := span{address, uint64(n)}
	got, _, errno := syscall.Syscall6(sysProcessVMReadv, uintptr(r.pid), uintptr(unsafe.Pointer(&local)), 1, uintptr(unsafe.Pointer(&remote)), 1, 0)
	runtime.KeepAlive(data)
	if errno != 0 {
		return nil, errno
	}
	if int(got) != n {
		return nil, fmt.Errorf("%d of %d bytes", got, n)
	}
	return data, nil
}

// text copies a string of the server. It may end just before a page that is
// not there, so it is read word by word.
func (r *recorder) text(address uint64) (string, error) {
	var out []byte
	for len(out) < 4096 {
		step := 8 - int(address%8)
		word, err := r.memory(address, step)
		if err != nil {
			return "", err
		}
		if last, _, ends := bytes.Cut(word, []byte{0}); ends {
			return string(append(out, last...)), nil
		}
		out, address = append(out, word...), address+uint64(step)
	}
	return "", errors.New("a path without end")
}
