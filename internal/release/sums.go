package release

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// sums writes the checksums of all that was made, as sha256sum -c reads them, and
// their signature, if there is a key.
func (m *maker) sums(ctx context.Context) error {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(m.made)) {
		fmt.Fprintf(&b, "%s  %s\n", m.made[name], name)
	}
	if err := m.write("SHA256SUMS", []byte(b.String())); err != nil {
		return err
	}
	if m.SignKey == "" {
		return nil
	}
	return m.sign(ctx, "SHA256SUMS")
}

// sign signs a file with ssh-keygen, which also those have who verify it. The
// namespace is the one that ssh-keygen's manual has for files. A key with a
// passphrase asks for it on the terminal; a public key means that the agent signs.
func (m *maker) sign(ctx context.Context, name string) error {
	key, err := filepath.Abs(m.SignKey)
	if err != nil {
		return fmt.Errorf("find the key to sign with: %w", err)
	}
	made := filepath.Join(m.Out, name+".sig")
	cmd := exec.CommandContext(ctx, "ssh-keygen", "-Y", "sign", "-f", key, "-n", "file", name) //nolint:gosec // the caller's key
	cmd.Dir = m.Out
	if out, err := cmd.CombinedOutput(); err != nil {
		return errors.Join(fmt.Errorf("sign %s: %w\n%s", name, err, out), os.RemoveAll(made))
	}
	content, err := os.ReadFile(made)
	if err != nil {
		return fmt.Errorf("read the signature: %w", err)
	}
	return m.write(name+".sig", content) // readable by everybody, as the rest is
}
