package release

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"fmt"
	"io"
	"path"
	"time"
)

// archive puts the files into a folder of the archive's name: zip for Windows,
// which opens nothing else without other programs, tar.gz elsewhere.
func (m *maker) archive(t Target, name string, files []file) error {
	pack, suffix := tarball, ".tar.gz"
	if t.OS == "windows" {
		pack, suffix = zipFile, ".zip"
	}
	var b bytes.Buffer
	if err := pack(&b, name, files, m.Time); err != nil {
		return fmt.Errorf("pack %s: %w", name, err)
	}
	return m.write(name+suffix, b.Bytes())
}

// tarball has no owner, no name of a machine and one time only.
func tarball(w io.Writer, folder string, files []file, at time.Time) error {
	squeeze, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	pack := tar.NewWriter(squeeze)
	for _, f := range files {
		head := &tar.Header{
			Typeflag: tar.TypeReg, Name: path.Join(folder, f.name), Size: int64(len(f.content)),
			Mode: int64(f.mode), ModTime: at, Format: tar.FormatPAX,
		}
		if err := pack.WriteHeader(head); err != nil {
			return err
		}
		if _, err := pack.Write(f.content); err != nil {
			return err
		}
	}
	if err := pack.Close(); err != nil {
		return err
	}
	return squeeze.Close()
}

func zipFile(w io.Writer, folder string, files []file, at time.Time) error {
	pack := zip.NewWriter(w)
	pack.RegisterCompressor(zip.Deflate, func(to io.Writer) (io.WriteCloser, error) {
		return flate.NewWriter(to, flate.BestCompression)
	})
	for _, f := range files {
		head := &zip.FileHeader{Name: path.Join(folder, f.name), Method: zip.Deflate, Modified: at}
		head.SetMode(f.mode)
		to, err := pack.CreateHeader(head)
		if err != nil {
			return err
		}
		if _, err := to.Write(f.content); err != nil {
			return err
		}
	}
	return pack.Close()
}
