package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// WriteFiles writes the report into a folder: bench.json with every single
// measurement, bench.md to read, and the same picture as PNG and SVG.
func (r *Report) WriteFiles(dir string) error {
	for _, f := range []struct {
		name  string
		write func(io.Writer) error
	}{
		{"bench.json", r.WriteJSON}, {"bench.md", r.WriteMarkdown}, {"bench.png", r.WritePNG}, {"bench.svg", r.WriteSVG},
	} {
		if err := writeFile(filepath.Join(dir, f.name), f.write); err != nil {
			return fmt.Errorf("write %s: %w", f.name, err)
		}
	}
	return nil
}

func writeFile(path string, write func(io.Writer) error) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}

// WriteJSON writes everything, every single measurement included.
func (r *Report) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}
