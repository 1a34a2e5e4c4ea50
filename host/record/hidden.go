package record

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

var hiddenName = regexp.MustCompile(`hidden-[0-9a-f]{8}`)

// leastMasked is the length of a value that is looked for in texts: a shorter one may be part of any word.
const leastMasked = 6

// Hidden has the secret values of a plan, which names them only (tsduel/core/hidden.py).
type Hidden struct {
	values map[string]string
	// It writes names in the place of values, of the same length, so that places within a file stay.
	mask *strings.Replacer
}

// Reveal puts the secret values from CACHE/secrets into the components of a plan. It returns nil if there are none.
func (p *Plan) Reveal(cache string) (*Hidden, error) {
	h := &Hidden{values: map[string]string{}}
	every := [][]Component{}
	for _, v := range p.Variants {
		every = append(every, v.Components)
	}
	var failed error
	show := func(text string) string {
		shown, err := h.show(cache, text)
		failed = cmp.Or(failed, err)
		return shown
	}
	for _, components := range every {
		for at, c := range components {
			components[at].URL = show(c.URL)
			for i := range c.Flags {
				c.Flags[i] = show(c.Flags[i])
			}
			for _, texts := range []map[string]string{c.Env, c.Files} {
				for name, text := range texts {
					texts[name] = show(text)
				}
			}
		}
	}
	if len(h.values) == 0 {
		return nil, failed
	}
	forms := map[string]string{}
	for name, value := range h.values {
		if len(value) < leastMasked || strings.Trim(value, "0123456789") == "" {
			continue
		}
		quoted, _ := json.Marshal(value)
		for _, form := range []string{value, string(quoted[1 : len(quoted)-1]), url.QueryEscape(value)} {
			forms[form] = name[:min(len(name), len(form))] + strings.Repeat("*", max(0, len(form)-len(name)))
		}
	}
	var pairs []string
	longest := func(a, b string) int { return cmp.Compare(len(b), len(a)) } // one may begin with another
	for _, form := range slices.SortedFunc(maps.Keys(forms), longest) {
		pairs = append(pairs, form, forms[form])
	}
	h.mask = strings.NewReplacer(pairs...)
	return h, failed
}

// show returns a text with values in the place of names; a value may have names, too.
func (h *Hidden) show(cache, text string) (shown string, err error) {
	shown = hiddenName.ReplaceAllStringFunc(text, func(name string) string {
		path := filepath.Join(cache, "secrets", name)
		value, failed := os.ReadFile(path)
		if failed != nil {
			err = UserError("the secret value %s of the plan cannot be read at %s (%v; make clean-cache removes it): start a "+
				"new run, without RUN=", name, path, errors.Unwrap(failed))
			return name
		}
		inner, failed := h.show(cache, string(value))
		err, h.values[name] = cmp.Or(err, failed), inner
		return inner
	})
	return shown, err
}

// Mask returns a text with names in the place of secret values.
func (h *Hidden) Mask(text string) string {
	if h == nil {
		return text
	}
	return h.mask.Replace(text)
}

// MaskFile does the same with a file that a measured program has written, and that nobody writes any more.
func (h *Hidden) MaskFile(path string) error {
	if h == nil {
		return nil
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	masked := []byte(h.Mask(string(text)))
	if bytes.Equal(masked, text) {
		return nil
	}
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteAt(masked, 0)
	if err = errors.Join(err, file.Close()); err != nil {
		err = fmt.Errorf("hiding secrets in %s: %w", path, err)
	}
	return err
}
