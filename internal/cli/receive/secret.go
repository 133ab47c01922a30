package receive

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/breakwaterhq/breakwater/internal/cli/kit"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/sign"
)

// secret reads the secret of listen, which is made once.
func (l *listener) secret(path string) (secret sign.Secret, file string, err error) {
	if path == "" {
		folder := l.Variable("XDG_CONFIG_HOME")
		if folder == "" {
			if folder, err = os.UserConfigDir(); err != nil {
				return secret, "", kit.Usagef("--secret-file: no configuration folder is known; name a file")
			}
		}
		path = filepath.Join(folder, "breakwater", "listen.secret")
	}
	text, err := firstLine(path)
	if errors.Is(err, fs.ErrNotExist) {
		text, err = makeSecret(path)
	}
	if err != nil {
		return secret, "", kit.Usagef("--secret-file: %w", err)
	}
	if secret, err = sign.ParseSecret(text); err != nil || secret.Scheme() != hook.SchemeStandard {
		return secret, "", kit.Usagef("--secret-file: %s must hold a secret, whsec_ and base64; remove the file to have one made", path)
	}
	if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o077 != 0 {
		l.Note("others can read %s; take that away: chmod 600 %s", path, path)
	}
	return secret, path, nil
}

// makeSecret keeps a new secret in a file that nobody else can read. When somebody
// else was first, theirs counts.
func makeSecret(path string) (string, error) {
	secret, err := sign.NewSecret(rand.Reader)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return firstLine(path)
	}
	if err != nil {
		return "", err
	}
	_, err = fmt.Fprintln(f, secret.Reveal())
	return secret.Reveal(), errors.Join(err, f.Close())
}
