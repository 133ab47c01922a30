package rest_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/hook"
)

// TestShelfHoldsNoMoreThanItHas: whoever waits gets what another gives back; in all it holds no more
// than it has.
func TestShelfHoldsNoMoreThanItHas(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rest.NewShelf(10, 4)
		first, err := s.Take(t.Context(), 1, 4)
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan error)
		go func() {
			release, err := s.Take(t.Context(), 1, 100) // counts as all a key may have
			if err == nil {
				release()
			}
			got <- err
		}()
		time.Sleep(time.Second / 2)
		first()
		if err := <-got; err != nil {
			t.Errorf("one that waited = %v", err)
		}
		for key := range hook.ID(2) {
			if _, err := s.Take(t.Context(), 10+key, 4); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.Take(t.Context(), 20, 4); err == nil || !strings.Contains(err.Error(), "overloaded") {
			t.Errorf("more than there is in all = %v", err)
		}
		if _, err := s.Take(t.Context(), 20, 2); err != nil {
			t.Errorf("what is left = %v", err)
		}
	})
}
