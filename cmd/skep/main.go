// Command skep is the one binary of Skep: a batch MapReduce and SQL engine over
// a region store. Its verbs turn flags into calls of node and client, and
// print what comes back.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"

	"github.com/skepdb/skep/internal/fault"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// Exit codes.
const (
	exitFine        = 0
	exitFailed      = 1   // a statement or job failed
	exitUsage       = 2   // the command line is wrong
	exitInterrupted = 130 // Ctrl-C
)

// app is one run of the program: its streams and what they are.
type app struct {
	in       io.Reader
	out, err io.Writer
	inTTY    bool // a person types
	outTTY   bool
	errTTY   bool // progress may be drawn

	interrupts <-chan os.Signal // Ctrl-C
}

func main() {
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	a := &app{in: os.Stdin, out: os.Stdout, err: os.Stderr, interrupts: interrupts,
		inTTY:  term.IsTerminal(int(os.Stdin.Fd())),
		outTTY: term.IsTerminal(int(os.Stdout.Fd())),
		errTTY: term.IsTerminal(int(os.Stderr.Fd()))}
	os.Exit(a.run(context.Background(), os.Args[1:]))
}

// run runs a command line and returns the exit code.
func (a *app) run(ctx context.Context, args []string) int {
	root := a.root()
	root.SetArgs(args)
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitFine
	}
	if e, ok := errors.AsType[*usageError](err); ok {
		fmt.Fprintf(a.err, "skep: %v\n", e)
		return exitUsage
	}
	if e, ok := errors.AsType[*failure](err); ok {
		return e.code
	}
	if errors.Is(err, context.Canceled) {
		fmt.Fprintln(a.err, "skep: interrupted")
		return exitInterrupted
	}
	if strings.HasPrefix(err.Error(), "unknown command") {
		fmt.Fprintf(a.err, "skep: %s\n", err)
		return exitUsage
	}
	a.printError(err)
	return exitFailed
}

// usageError says that the command line is wrong.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// failure ends the program with a code; what there was to say has been said.
type failure struct{ code int }

func (e *failure) Error() string { return fmt.Sprintf("exit code %d", e.code) }

// printError prints an error that has no place in a text.
func (a *app) printError(err error) {
	fmt.Fprintf(a.err, "skep: %v\n", err)
	if fault.ClassOf(err) == fault.Bug {
		fmt.Fprintln(a.err, "skep: this is a fault in skep or in its surroundings, not in what was asked")
	}
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "skep",
		Short: "SQL and batch jobs over a region store, in one binary",
		Long: "Skep loads keyed, wide, sparse records in bulk, keeps them current with puts, and answers\n" +
			"HiveQL over them. It runs in this process, over data folders that nothing else has to serve.",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usagef("%w\ntry '%s --help'", err, c.CommandPath())
	})
	root.AddCommand(a.demo(), a.sql(), a.table(), a.job(), a.export(), a.start(), a.node(), a.version())
	return root
}

// arguments makes a positional-argument check a usage error.
func arguments(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if err := check(c, args); err != nil {
			return usagef("%w\nusage: %s", err, c.UseLine())
		}
		return nil
	}
}

func (a *app) version() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  skep version",
		Args:    arguments(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(a.out, versionText())
			return err
		},
	}
}

// versionText names the module version, or the commit that was built.
func versionText() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "skep (no build information)"
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	text := "skep " + info.Main.Version
	if rev := settings["vcs.revision"]; rev != "" {
		text += " commit " + rev[:min(12, len(rev))]
		if settings["vcs.modified"] == "true" {
			text += "+changes"
		}
	}
	return text + " " + info.GoVersion + " " + settings["GOOS"] + "/" + settings["GOARCH"]
}

// interruptible returns a context that Ctrl-C cancels.
func (a *app) interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-a.interrupts:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		cancel()
		<-done
	}
}
