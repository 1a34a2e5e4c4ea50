// Package floors holds that the files of a package stand on floors: each uses only what files below it declare.
package floors

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// listed is a package as `go list` tells it.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
}

// arrows are what one file uses of another: user -> declarer -> the names.
type arrows map[string]map[string][]string

func (a arrows) add(user, declarer, name string) {
	if a[user] == nil {
		a[user] = map[string][]string{}
	}
	if user != declarer && !slices.Contains(a[user][declarer], name) {
		a[user][declarer] = append(a[user][declarer], name)
	}
}

// circle is a way from a file through files that it uses back to itself, or nil.
func (a arrows) circle() []string {
	const onTheWay, done = 1, 2
	state := map[string]int{}
	var way []string
	var visit func(file string) []string
	visit = func(file string) []string {
		if state[file] == done {
			return nil
		}
		way = append(way, file)
		if state[file] == onTheWay {
			return way[slices.Index(way, file):]
		}
		state[file] = onTheWay
		for _, next := range slices.Sorted(maps.Keys(a[file])) {
			if found := visit(next); found != nil {
				return found
			}
		}
		state[file], way = done, way[:len(way)-1]
		return nil
	}
	for _, file := range slices.Sorted(maps.Keys(a)) {
		if found := visit(file); found != nil {
			return found
		}
	}
	return nil
}

// read finds the arrows between the files of a package: functions, methods, types, fields, variables, constants.
func read(imports types.Importer, files *token.FileSet, syntax []*ast.File) (arrows, error) {
	info := types.Info{Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: imports}
	own, err := config.Check("", files, syntax, &info)
	if err != nil {
		return nil, err
	}
	file := func(at token.Pos) string { return filepath.Base(files.Position(at).Filename) }
	all := arrows{}
	for name, used := range info.Uses {
		if used.Pkg() == own {
			all.add(file(name.Pos()), file(used.Pos()), used.Name())
		}
	}
	return all, nil
}

// packages are those of this module, and a reader of the types of all that they import.
func packages(t *testing.T, files *token.FileSet) (own []listed, imports types.Importer) {
	t.Helper()
	command := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles", "../...")
	command.Stderr = os.Stderr
	out, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	exports := map[string]string{}
	for list := json.NewDecoder(strings.NewReader(string(out))); list.More(); {
		var one listed
		if err := list.Decode(&one); err != nil {
			t.Fatal(err)
		}
		exports[one.ImportPath] = one.Export
		if strings.HasPrefix(one.ImportPath, "tsduel/host/") {
			own = append(own, one)
		}
	}
	return own, importer.ForCompiler(files, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})
}

func parse(t *testing.T, files *token.FileSet, texts map[string]any) (syntax []*ast.File) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		one, err := parser.ParseFile(files, name, texts[name], parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		syntax = append(syntax, one)
	}
	return syntax
}

// No arrow goes back up: files of a package that use each other are one file, or have what both use in a third.
func TestAFileUsesOnlyFilesBelowIt(t *testing.T) {
	files := token.NewFileSet()
	own, imports := packages(t, files)
	for _, p := range own {
		texts := map[string]any{}
		for _, name := range p.GoFiles {
			texts[filepath.Join(p.Dir, name)] = nil
		}
		all, err := read(imports, files, parse(t, files, texts))
		if err != nil {
			t.Fatal(err)
		}
		if circle := all.circle(); circle != nil {
			var said []string
			for i, user := range circle[:len(circle)-1] {
				names := all[user][circle[i+1]]
				slices.Sort(names)
				said = append(said, fmt.Sprintf("%s uses %s of %s", user, strings.Join(names, ", "), circle[i+1]))
			}
			t.Errorf("%s: %s", p.ImportPath, strings.Join(said, "; "))
		}
	}
}

func TestACircleOfTwoFilesIsFound(t *testing.T) {
	files := token.NewFileSet()
	const above = "package p\n\nfunc above(v *variant) int { return v.servers.count() + port }\n\nconst port = 1\n"
	const below = "package p\n\ntype variant struct{ servers }\n\ntype servers []int\n\n" +
		"func (s servers) count() int { return %s }\n"
	for last, circle := range map[string][]string{"len(s)": nil, "port": {"above.go", "below.go", "above.go"}} {
		texts := map[string]any{"above.go": above, "below.go": fmt.Sprintf(below, last)}
		all, err := read(nil, files, parse(t, files, texts))
		if err != nil || !slices.Equal(all.circle(), circle) || !slices.Contains(all["above.go"]["below.go"], "count") {
			t.Errorf("below.go returns %s: %v, %v", last, all, err)
		}
	}
}
