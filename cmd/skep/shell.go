package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/reeflective/readline"
	"github.com/skepdb/skep/client"
	"github.com/skepdb/skep/sql/parser"
)

// shell reads statements from a terminal until Ctrl-D or `quit`. A statement
// may have many lines and ends with a semicolon; Ctrl-C drops the line, or
// cancels the statement that runs.
func (a *app) shell(ctx context.Context, r *runner) error {
	r.footer, r.force = true, true
	if !r.silent {
		fmt.Fprintf(a.err, "%s\nStatements end with a semicolon. Tab completes, Ctrl-C cancels, Ctrl-D or quit ends.\n", versionText())
	}
	editor := readline.NewShell()
	editor.Prompt.Primary(func() string { return r.session.Database() + "> " })
	editor.Prompt.Secondary(func() string { return strings.Repeat(" ", len(r.session.Database())) + "> " })
	editor.AcceptMultiline = func(line []rune) bool { return isCommand(string(line)) || complete(string(line)) }
	names := &shellNames{ctx: ctx, session: r.session}
	editor.Completer = func(line []rune, cursor int) readline.Completions {
		return readline.CompleteValues(names.matching(wordBefore(line, cursor))...)
	}
	if file, err := historyFile(); err == nil {
		editor.History.AddFromFile("history", file)
	} else if !r.silent {
		fmt.Fprintf(a.err, "skep: no history is kept: %v\n", err)
	}
	for {
		text, err := editor.Readline()
		switch {
		case errors.Is(err, readline.ErrInterrupt):
			continue
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read from the terminal: %w", err)
		}
		switch word := strings.ToLower(strings.TrimRight(strings.TrimSpace(text), "; ")); word {
		case "":
			continue
		case "quit", "exit":
			return nil
		case "help":
			fmt.Fprintln(a.out, shellHelp)
			continue
		}
		if err := a.shellScript(ctx, r, text); err != nil {
			return err
		}
		names.forget()
	}
}

const shellHelp = `SHOW TABLES;  DESCRIBE t;  CREATE TABLE t (id bigint, name string) ROW KEY (id);
LOAD DATA LOCAL INPATH 'file' INTO TABLE t;  INSERT INTO t VALUES (1, 'a');
SELECT name, count(*) FROM t GROUP BY name;  EXPLAIN SELECT ...;  quit`

// shellScript runs what was entered; only an error of the program itself ends
// the shell.
func (a *app) shellScript(ctx context.Context, r *runner, text string) error {
	select { // a Ctrl-C from before doesn't count
	case <-a.interrupts:
	default:
	}
	ctx, stop := a.interruptible(ctx)
	defer stop()
	err := r.script(ctx, script{text: text})
	r.failed = false
	if f := (*failure)(nil); errors.As(err, &f) {
		return nil
	}
	return err
}

// complete reports whether a text can be run: nothing follows its last semicolon.
func complete(text string) bool {
	pieces := parser.Split(text)
	return len(pieces) == 0 || pieces[len(pieces)-1].Terminated
}

// isCommand reports whether a line is one of the shell's own words, which need
// no semicolon.
func isCommand(line string) bool {
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "quit", "exit", "help":
		return true
	}
	return false
}

// historyFile returns the path of the file that keeps what was entered, made if
// needed, readable by its owner alone.
func historyFile() (string, error) {
	dir := os.Getenv("XDG_STATE_HOME")
	if dir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(home, ".local", "state")
	}
	dir = filepath.Join(dir, "skep")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	file := filepath.Join(dir, "history")
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return file, os.Chmod(file, 0o600)
	}
	if err != nil {
		return "", err
	}
	return file, f.Close()
}

// wordBefore returns the name or keyword that ends at the cursor.
func wordBefore(line []rune, cursor int) string {
	start := cursor
	for start > 0 && isWord(line[start-1]) {
		start--
	}
	return string(line[start:cursor])
}

func isWord(r rune) bool {
	return r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r > 0x7f
}

// shellNames are the words that completion offers: keywords, and tables and
// columns of the session's database, read again after each statement.
type shellNames struct {
	ctx     context.Context
	session client.Session
	words   []string
}

func (n *shellNames) forget() { n.words = nil }

// matching returns the words that begin with prefix, a keyword in the case of
// the prefix.
func (n *shellNames) matching(prefix string) []string {
	if prefix == "" {
		return nil
	}
	if n.words == nil {
		n.words = []string{}
		if names, err := n.session.Names(n.ctx); err == nil { // completion has nobody to tell
			n.words = append(n.words, names...)
		}
	}
	var out []string
	seen := map[string]bool{}
	add := func(w string) {
		if !seen[w] {
			seen[w] = true
			out = append(out, w)
		}
	}
	upper := prefix != strings.ToLower(prefix)
	for _, k := range completionKeywords() {
		if strings.HasPrefix(k, strings.ToLower(prefix)) {
			if upper {
				k = strings.ToUpper(k)
			}
			add(k)
		}
	}
	for _, w := range n.words {
		if strings.HasPrefix(w, strings.ToLower(prefix)) {
			add(w)
		}
	}
	return out
}

// completionKeywords are the words people type, not all that are reserved.
func completionKeywords() []string {
	return strings.Fields(`and as asc avg between bigint boolean by case cast columns comment count create data database
		databases date decimal delimited desc describe distinct double drop else end exists explain false fields
		float format from functions group having if in inner inpath insert int into is join key like limit load local
		max min not null on or order overwrite row rlike select show smallint split string sum table tables tblproperties
		terminated then timestamp tinyint true use values varchar when where`)
}
