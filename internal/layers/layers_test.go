package layers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/skepdb/skep/"

// row is one package and what of ours it may import.
type row struct {
	pkg   string // path below the module
	allow string // paths, blank-separated; "*" is everything
}

// table names every package, from the bottom up.
var table = []row{
	// Helpers that import nothing of ours.
	{"internal/fault", ""},
	{"internal/nearest", ""},
	{"internal/xpath", ""},
	{"internal/layers", ""},
	{"internal/coding", ""},
	{"internal/coding/codingtest", "internal/coding"},

	// Protocols: generated code, see the ban on it below.
	{"api", ""},
	{"api/fault", ""},
	{"api/node", ""},
	{"api/artifact", ""},
	{"api/jobs", "api/fault"},
	{"api/storage", ""},
	{"api/shuffle", ""},
	{"api/frontend", "api/fault api/jobs"},
	{"api/catalog", ""},
	{"api/cluster", "api/jobs"},

	// What everybody means by type, batch and worker.
	{"schema", "internal/fault internal/nearest"},
	{"cluster", ""},
	{"cluster/rpc", "api/fault api/node internal/fault"},
	{"batch", "schema"},
	{"batch/frame", "batch schema"},
	{"batch/spill", "batch internal/fault schema"},

	// The region store.
	{"storage", "batch cluster internal/fault schema"},
	{"storage/rowkey", "batch internal/fault schema storage"},
	{"storage/folder", "internal/fault"},
	{"storage/region/segment", "batch internal/fault schema storage storage/rowkey"},
	{"storage/region", "batch cluster internal/fault schema storage storage/folder storage/region/segment storage/rowkey"},
	{"storage/wire", "batch cluster/rpc internal/coding internal/fault schema storage"},
	{"storage/server", "api/storage batch batch/frame internal/coding internal/fault schema storage storage/wire"},
	{"storage/client", "api/storage batch batch/frame cluster internal/coding internal/fault schema storage storage/rowkey storage/wire"},
	{"storage/storagetest", "batch internal/fault schema storage storage/rowkey"},

	// The catalogue.
	{"catalog", "schema storage"},
	{"catalog/server", "api/catalog catalog internal/coding internal/fault schema storage"},
	{"catalog/client", "api/catalog catalog internal/coding internal/fault schema storage"},
	{"catalog/metastore", "catalog cluster internal/fault internal/nearest schema storage"},

	// The three doors of a task.
	{"inputformat", "batch cluster schema"},
	{"inputformat/region", "batch cluster inputformat internal/fault schema storage storage/rowkey"},
	{"inputformat/text", "batch inputformat internal/fault internal/nearest schema"},
	{"inputformat/lines", "inputformat inputformat/text internal/fault schema"},
	{"inputformat/csv", "batch inputformat inputformat/text internal/fault schema"},
	{"outputformat", "batch schema"},
	{"outputformat/table", "batch catalog internal/fault outputformat schema storage storage/rowkey"},
	{"outputformat/resultset", "batch cluster internal/fault outputformat schema shuffle"},
	{"outputformat/text", "batch internal/fault outputformat schema"},
	{"shuffle", "batch batch/frame cluster internal/fault schema"},
	{"shuffle/shuffletest", "batch schema shuffle"},
	{"shuffle/server", "api/shuffle cluster shuffle"},
	{"shuffle/client", "api/shuffle batch batch/frame cluster internal/fault schema shuffle"},

	// Work, and who does it where.
	{"jobs", "batch cluster inputformat internal/fault outputformat schema"},
	{"jobs/wire", "api/jobs cluster cluster/rpc inputformat internal/coding internal/fault jobs outputformat schema"},
	{"jobs/artifact", "internal/fault"},
	{"jobs/artifact/server", "api/artifact jobs/artifact"},
	{"jobs/artifact/client", "api/artifact"},
	{"jobs/mapreduce/pipe", "batch batch/frame schema"},
	{"jobs/mapreduce", "batch internal/fault internal/nearest jobs/mapreduce/pipe schema"},
	{"jobs/mapreduce/engine", "batch batch/frame inputformat internal/fault jobs jobs/mapreduce jobs/mapreduce/pipe outputformat schema"},
	{"jobs/builtin", "batch jobs/mapreduce"},
	{"scheduler", "cluster internal/fault jobs"},
	{"worker/child", "internal/fault"},
	{"scheduler/server", "api/cluster api/jobs cluster internal/fault jobs jobs/wire outputformat scheduler"},
	{"scheduler/client", "api/cluster api/jobs cluster internal/fault jobs jobs/wire"},
	{"worker/server", "api/cluster api/jobs cluster internal/fault jobs jobs/wire worker"},
	{"worker", "batch cluster inputformat internal/fault jobs outputformat schema shuffle"},

	// SQL: text to plan to job, and the operators that run it.
	{"sql/ast", "schema"},
	{"sql/parser", "internal/fault internal/nearest schema sql/ast"},
	{"sql/plan", "inputformat outputformat schema sql/function"},
	{"sql/plan/wire", "internal/coding sql/plan"},
	{"sql/function", "batch internal/fault internal/nearest internal/xpath schema"},
	{"sql/operator", "batch batch/spill inputformat internal/fault jobs schema sql/function sql/plan storage/rowkey"},
	{"sql/analyzer", "catalog internal/fault internal/nearest schema sql/ast sql/function sql/plan"},
	{"sql/optimizer", "internal/fault schema sql/plan storage storage/rowkey"},
	{"sql/stage", "batch inputformat internal/fault jobs sql/optimizer sql/plan"},
	{"sql", "batch catalog inputformat inputformat/csv inputformat/region inputformat/text internal/fault internal/nearest jobs outputformat outputformat/table outputformat/text schema sql/analyzer sql/ast sql/function sql/optimizer sql/parser sql/plan sql/stage storage storage/rowkey"},

	// Doors for people and programs.
	{"export", "batch internal/fault internal/nearest outputformat/text schema"},
	{"frontend", "batch catalog internal/fault jobs outputformat schema sql sql/ast sql/function sql/parser"},
	{"frontend/rpc", "api/frontend batch batch/frame cluster/rpc frontend internal/coding internal/fault jobs jobs/wire schema sql sql/ast sql/parser"},
	{"frontend/render", "batch internal/fault schema"},
	{"client", "*"},
	{"node", "*"},
	{"cmd/skep", "*"},
	{"bench", "client"},
	{"test/cluster", ""},
	{"examples/occurrence", ""},
	{"examples/elevations", "jobs/mapreduce"},
}

// ban is an import that would break the design, and why. A trailing "/..."
// stands for a package and all below it.
type ban struct{ from, to, why string }

var bans = []ban{
	{"scheduler", "sql/...", "the scheduler knows jobs, not what they compute"},
	{"scheduler", "storage/...", "the core has no disk and no data: it decides from events alone"},
	{"scheduler/...", "worker/...", "scheduler and worker meet in jobs, so that either can be in another process"},
	{"worker/...", "scheduler/...", "scheduler and worker meet in jobs, so that either can be in another process"},
	{"worker", "catalog/...", "a plan carries resolved specs: a running job keeps its meaning when a table changes"},
	{"jobs/mapreduce", "jobs", "users' programs are built with it: they know no job, no worker and no store"},
	{"jobs/mapreduce", "storage/...", "users' programs are built with it: they know no job, no worker and no store"},
	{"worker", "sql/parser", "a worker gets plans, never text"},
	{"worker", "sql/analyzer", "a worker gets plans, never names"},
	{"jobs", "sql/...", "a hand-written job and a SQL stage are the same thing to scheduler and worker"},
	{"sql/operator", "catalog/...", "operators run on workers, which have no catalogue"},
	{"sql/optimizer", "sql/operator", "planning doesn't run: constants are folded through an interface"},
	{"frontend/...", "storage/...", "no door reads data behind the engine's back"},
	{"frontend/...", "sql/operator", "no door reads data behind the engine's back"},
	{"frontend/...", "worker", "no door reads data behind the engine's back"},
	{"storage/...", "catalog/...", "the store asks the catalogue through storage.Authority, which it declares itself"},
	{"storage/...", "sql/...", "the store knows predicates, not SQL"},
	{"schema", "catalog/...", "types sit below the catalogue, so that the word int doesn't import it"},
	{"inputformat/...", "sql/...", "formats serve hand-written jobs too"},
	{"outputformat/...", "sql/...", "formats serve hand-written jobs too"},
}

// everything may be imported by these alone.
var mayImportAll = []string{"node", "client", "cmd/skep"}

type listed struct {
	ImportPath string
	Imports    []string
}

func list(t *testing.T) map[string][]string {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports", "./...")
	cmd.Dir = "../.."
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	packages := map[string][]string{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		var ours []string
		for _, i := range p.Imports {
			if name, ok := strings.CutPrefix(i, module); ok {
				ours = append(ours, name)
			}
		}
		packages[strings.TrimPrefix(p.ImportPath, module)] = ours
	}
	return packages
}

// check returns what is wrong with the packages' imports, or with the table.
func check(packages map[string][]string, table []row, bans []ban) (problems []string) {
	wrong := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	rows := map[string]row{}
	for _, r := range table {
		if _, twice := rows[r.pkg]; twice {
			wrong("two rows for %s", r.pkg)
		}
		rows[r.pkg] = r
		if _, ok := packages[r.pkg]; !ok {
			wrong("dead row: there is no package %s", r.pkg)
		}
		if r.allow == "*" && !slices.Contains(mayImportAll, r.pkg) {
			wrong("%s may not import everything: only %s may", r.pkg, strings.Join(mayImportAll, ", "))
		}
		for a := range strings.FieldsSeq(r.allow) {
			if _, ok := packages[a]; !ok && a != "*" {
				wrong("dead row: %s may import %s, which doesn't exist", r.pkg, a)
			}
			if a != "*" && !slices.Contains(packages[r.pkg], a) {
				wrong("dead row: %s may import %s, but doesn't", r.pkg, a)
			}
			for _, b := range bans {
				if a != "*" && matches(b.from, r.pkg) && matches(b.to, a) {
					wrong("the row of %s allows %s, which is banned: %s", r.pkg, a, b.why)
				}
			}
		}
	}
	for _, b := range bans {
		if !anyMatch(packages, b.from) || !anyMatch(packages, b.to) {
			wrong("dead ban: %s -> %s names nothing", b.from, b.to)
		}
	}
	for pkg, imports := range packages {
		r, ok := rows[pkg]
		if !ok {
			wrong("package %s has no row in the table: add one that says what it may import", pkg)
			continue
		}
		allowed := strings.Fields(r.allow)
		for _, i := range imports {
			for _, b := range bans {
				if matches(b.from, pkg) && matches(b.to, i) {
					wrong("%s imports %s: %s", pkg, i, b.why)
				}
			}
			if matches("api/...", i) && !speaks(pkg) {
				wrong("%s imports %s: protobuf types stop at packages named wire, server, client and rpc", pkg, i)
			}
			if r.allow != "*" && !slices.Contains(allowed, i) {
				wrong("%s imports %s, which its row doesn't allow", pkg, i)
			}
		}
	}
	slices.Sort(problems)
	return problems
}

func matches(pattern, pkg string) bool {
	if parent, ok := strings.CutSuffix(pattern, "/..."); ok {
		return pkg == parent || strings.HasPrefix(pkg, parent+"/")
	}
	return pkg == pattern
}

// speaks reports whether a package turns our values into protobuf and back.
func speaks(pkg string) bool {
	return slices.Contains([]string{"wire", "server", "client", "rpc"}, path.Base(pkg)) || matches("api/...", pkg)
}

func anyMatch(packages map[string][]string, pattern string) bool {
	for p := range packages {
		if matches(pattern, p) {
			return true
		}
	}
	return false
}

func TestLayers(t *testing.T) {
	for _, p := range check(list(t), table, bans) {
		t.Error(p)
	}
}

// The check itself finds each kind of fault.
func TestCheck(t *testing.T) {
	packages := map[string][]string{"low": nil, "mid": {"low"}, "mid/part": {"low"}, "top": {"mid", "low"}}
	speaking := maps.Clone(packages)
	speaking["top"], speaking["api/x"] = []string{"mid", "low", "api/x"}, nil
	fine := []row{{"low", ""}, {"mid", "low"}, {"mid/part", "low"}, {"top", "mid low"}}
	why := []ban{{"low", "mid/...", "upwards"}}
	if got := check(packages, fine, why); got != nil {
		t.Errorf("a table that is right: %q", got)
	}
	for name, c := range map[string]struct {
		table []row
		bans  []ban
		want  string
	}{
		"forbidden import":      {[]row{{"low", ""}, {"mid", ""}, {"mid/part", "low"}, {"top", "mid low"}}, why, "mid imports low, which its row doesn't allow"},
		"banned import":         {fine, []ban{{"top", "mid/...", "too deep"}}, "top imports mid: too deep"},
		"unlisted package":      {fine[:3], why, "package top has no row"},
		"dead row":              {append(slices.Clone(fine), row{"gone", ""}), why, "there is no package gone"},
		"dead allowance":        {append(slices.Clone(fine[:3]), row{"top", "mid low gone"}), why, "may import gone"},
		"unused allowance":      {append(slices.Clone(fine[1:]), row{"low", "top"}), why, "low may import top, but doesn't"},
		"dead ban":              {fine, []ban{{"low", "gone", "x"}}, "names nothing"},
		"everything is allowed": {append(slices.Clone(fine[:3]), row{"top", "*"}), why, "may not import everything"},
		"protobuf too deep":     {append(slices.Clone(fine[:3]), row{"top", "mid low api/x"}, row{"api/x", ""}), why, "protobuf types stop at"},
		"row against a ban":     {append(slices.Clone(fine[:3]), row{"top", "mid low"}), []ban{{"top", "low", "x"}}, "which is banned"},
	} {
		tree := packages
		if name == "protobuf too deep" {
			tree = speaking
		}
		got := strings.Join(check(tree, c.table, c.bans), "\n")
		if !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q, want %q in it", name, got, c.want)
		}
	}
}
