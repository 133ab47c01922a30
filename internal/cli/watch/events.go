package watch

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/breakwaterhq/breakwater/internal/cli/kit"
)

// maxEvent bounds one line of a stream.
const maxEvent = 4 << 20

// readEvents hands server-sent events to each until the stream or each fails. The end
// of the stream is an *UnreachableError: servers do not end them.
func readEvents(from io.Reader, each func(name, id, data string) error) error {
	lines := bufio.NewScanner(from)
	lines.Buffer(make([]byte, 0, 64<<10), maxEvent)
	var name, id string
	var data []string
	for lines.Scan() {
		field, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "": // the end of an event, or a comment
			if lines.Text() == "" && name != "" {
				if err := each(name, id, strings.Join(data, "\n")); err != nil {
					return err
				}
				name, id, data = "", "", nil
			}
		case "event":
			name = value
		case "id":
			id = value
		case "data":
			data = append(data, value)
		}
	}
	if err := lines.Err(); err != nil {
		return kit.Unreachable(fmt.Errorf("read stream: %w", err))
	}
	return kit.Unreachable(errors.New("the server has ended the stream"))
}
