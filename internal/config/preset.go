package config

import (
	"errors"
	"slices"

	"github.com/breakwaterhq/breakwater/internal/policy"
)

func checkPreset(s string) error {
	var names []string
	for _, p := range policy.Presets() {
		names = append(names, p.Name)
	}
	if slices.Contains(names, s) {
		return nil
	}
	text := "is not the name of a preset"
	if near := Nearest(s, names); near != "" {
		text += "; did you mean " + near + "?"
	}
	return errors.New(text)
}
