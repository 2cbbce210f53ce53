package frontend

import (
	"context"
	"maps"
	"runtime/debug"
	"strings"

	"github.com/skepdb/skep/catalog"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/jobs"
	"github.com/skepdb/skep/sql/parser"
)

// Job is a job that an Engine runs.
type Job interface {
	// Wait waits for the job's end and returns its last status and its error.
	Wait(ctx context.Context) (jobs.Status, error)
	Status() jobs.Status
}

// Options say in which surroundings statements run.
type Options struct {
	Database string // "": the default database
	HiveVar  map[string]string
	HiveConf map[string]string
	// Local brings the client's files that LOAD DATA LOCAL names; nil: they are this
	// process's files.
	Local func(ctx context.Context, path string) ([]string, error)
}

// Session has a current database and variables. Its statements run one after
// the other. It is not safe for concurrent use.
type Session struct {
	engine   Engine
	database string
	vars     Variables
	first    map[string]string // the settings that the session began with
	// temporaries are the session's temporary tables, in the order they were made.
	temporaries []*catalog.Table
	local       func(ctx context.Context, path string) ([]string, error)
}

// New returns a session. The database must exist.
func New(ctx context.Context, engine Engine, o Options) (*Session, error) {
	s := &Session{engine: engine, database: catalog.DefaultDatabase, local: o.Local,
		vars: Variables{HiveVar: map[string]string{}, HiveConf: map[string]string{}, other: map[string]string{}}}
	maps.Copy(s.vars.HiveVar, o.HiveVar)
	maps.Copy(s.vars.HiveConf, o.HiveConf)
	s.first = maps.Clone(s.vars.HiveConf)
	if o.Database != "" {
		db, err := engine.Catalog().Database(ctx, strings.ToLower(o.Database))
		if err != nil {
			return nil, err
		}
		s.database = db.Name
	}
	return s, nil
}

// Database returns the current database.
func (s *Session) Database() string { return s.database }

// Names returns the names that a person may want to type: the tables of the
// current database, and their columns.
func (s *Session) Names(ctx context.Context) ([]string, error) {
	tables, err := s.catalog().Tables(ctx, s.database)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, t := range tables {
		out = append(out, t.TableName)
		for _, c := range t.Columns {
			out = append(out, c.Name)
		}
	}
	return out, nil
}

// Start runs a statement of a script (parser.Split cuts them). The statement
// before it must have ended: Wait for it.
func (s *Session) Start(ctx context.Context, piece parser.Piece) *Operation {
	ctx, cancel := context.WithCancelCause(ctx)
	o := &Operation{piece: piece, source: piece.Text, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(o.done)
		defer func() { // a bug in one statement isn't the end of the others
			if p := recover(); p != nil {
				o.err = fault.Bugf("panic: %v\n%s", p, debug.Stack())
			}
		}()
		err := s.run(ctx, o)
		o.err = cancelled(ctx, err)
	}()
	return o
}

func (s *Session) run(ctx context.Context, o *Operation) error {
	text, err := s.vars.Substitute(o.piece.Text)
	if err != nil {
		return err
	}
	o.piece.Text = text
	o.piece.QuotedNames = strings.EqualFold(s.vars.HiveConf["hive.support.quoted.identifiers"], "standard")
	stmt, err := parser.ParsePiece(o.piece)
	if err != nil {
		return err
	}
	return s.execute(ctx, o, stmt)
}
