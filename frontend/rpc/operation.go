package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"

	frontendpb "github.com/skepdb/skep/api/frontend"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/batch/frame"
	"github.com/skepdb/skep/frontend"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/jobs"
	"github.com/skepdb/skep/jobs/wire"
)

// operation is a statement or a load of a session.
type operation struct {
	id      int64
	session *session
	op      *frontend.Operation // nil: it is a load
	load    *load
	done    chan struct{}
	err     error         // written before done is closed
	changed chan struct{} // has room for one: there is a need

	mu    sync.Mutex
	need  *need
	needs int64
	names []string // server's and client's names of files, in turn

	// fetching guards the cursor. page is the number of the next page, held the
	// one before.
	fetching sync.Mutex
	page     int64
	held     []*batch.Batch
	heldLast bool
	part     []*batch.Batch // read, and not in a page yet
}

// need is files that the client is asked for.
type need struct {
	id     int64
	path   string
	files  []string
	answer chan answer // has room for one
}

type answer struct {
	paths []string
	err   error
}

func (o *operation) ended() bool {
	select {
	case <-o.done:
		return true
	default:
		return false
	}
}

// stop cancels the work.
func (o *operation) stop(cause error) {
	if o.op != nil {
		o.op.Cancel()
	} else {
		o.load.cancel(cause)
	}
}

// close cancels, waits and frees.
func (o *operation) close() {
	o.stop(errCancelled)
	<-o.done
	o.fetching.Lock()
	defer o.fetching.Unlock()
	if o.op != nil {
		_ = o.op.Close() // its rows are dropped either way
	}
	o.held, o.part = nil, nil
	o.dropFiles()
}

// dir is the directory for the operation's files.
func (o *operation) dir() string { return filepath.Join(o.session.dir, fmt.Sprint(o.id)) }

func (o *operation) dropFiles() { _ = os.RemoveAll(o.dir()) } // what stays goes at the next start

// rename makes an error name the client's files.
func (o *operation) rename(err error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err == nil || len(o.names) == 0 {
		return err
	}
	return &renamed{err: err, names: o.names}
}

// local is the session's frontend.Options.Local.
func (x *session) local(ctx context.Context, path string) ([]string, error) {
	x.mu.Lock()
	o := x.current
	x.mu.Unlock()
	return x.files(ctx, o, &need{path: path})
}

// files asks the client for files and waits for them.
func (x *session) files(ctx context.Context, o *operation, n *need) ([]string, error) {
	n.answer = make(chan answer, 1)
	o.mu.Lock()
	o.needs++
	n.id, o.need = o.needs, n
	o.mu.Unlock()
	select {
	case o.changed <- struct{}{}:
	default:
	}
	defer func() {
		o.mu.Lock()
		o.need = nil
		o.mu.Unlock()
	}()
	select {
	case a := <-n.answer:
		return a.paths, a.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// events tells a client how an operation goes, until it has ended.
func (x *session) events(o *operation, out grpc.ServerStreamingServer[frontendpb.Event]) error {
	defer x.busy()()
	send := func(e *frontendpb.Event) error { return out.Send(e) }
	if err := send(&frontendpb.Event{Kind: &frontendpb.Event_Started{Started: o.id}}); err != nil {
		return err
	}
	tick := time.NewTicker(x.server.o.Every)
	defer tick.Stop()
	asked := int64(0)
	for {
		o.mu.Lock()
		n := o.need
		o.mu.Unlock()
		if n != nil && n.id != asked {
			asked = n.id
			if err := send(&frontendpb.Event{Kind: &frontendpb.Event_Need{Need: &frontendpb.NeedFiles{Id: n.id, Path: n.path, Files: n.files}}}); err != nil {
				return err
			}
		}
		select {
		case <-o.done:
			if err := o.sendRejects(send); err != nil {
				return err
			}
			done, err := o.last(out.Context())
			if err != nil {
				return err
			}
			return send(&frontendpb.Event{Kind: &frontendpb.Event_Done{Done: done}})
		case <-o.changed:
		case <-tick.C:
			if s, ok := o.status(); ok {
				if err := send(&frontendpb.Event{Kind: &frontendpb.Event_Status{Status: wire.Status(&s, nil)}}); err != nil {
					return err
				}
			}
		case <-out.Context().Done():
			return out.Context().Err()
		}
	}
}

// status returns how far the job is.
func (o *operation) status() (jobs.Status, bool) {
	if o.op != nil {
		return o.op.Status()
	}
	if o.ended() {
		return o.load.status, true
	}
	o.load.mu.Lock()
	defer o.load.mu.Unlock()
	if o.load.job == nil {
		return jobs.Status{}, false
	}
	return o.load.job.Status(), true
}

// last is what there is to say of an operation that has ended.
func (o *operation) last(ctx context.Context) (*frontendpb.Done, error) {
	server := o.session.server
	d := &frontendpb.Done{Error: server.o.Errors.Encode(o.rename(o.err))}
	if s, ok := o.status(); ok {
		d.Status = wire.Status(&s, nil)
	}
	if o.op == nil {
		return d, nil
	}
	d.Text, d.Database = o.op.Text(), o.session.s.Database()
	d.Notes, d.Affected = o.op.Notes(), o.op.Affected()
	fields := o.op.Fields()
	if o.err != nil || fields == nil {
		return d, nil
	}
	d.HasRows = true
	var err error
	if d.Fields, err = encodeFields(server.o.Codec, fields); err != nil {
		return nil, err
	}
	// Most results are small: they come with the news.
	const small = 64 << 10
	err = o.fetch(ctx, 0, func(frames []byte, last bool) error {
		if len(d.Frames)+len(frames) > small {
			return errLarge
		}
		d.Frames = append(d.Frames, frames...)
		d.Last = last
		return nil
	})
	d.Page = 1
	if errors.Is(err, errLarge) {
		d.Frames, d.Last, d.Page, err = nil, false, 0, nil
	}
	if err != nil {
		d.Error = server.o.Errors.Encode(err)
		d.HasRows = false
	}
	return d, nil
}

var errLarge = errors.New("the page is large")

// sendRejects sends the rows that a load left out.
func (o *operation) sendRejects(send func(*frontendpb.Event) error) error {
	if o.load == nil || o.load.rejects == "" {
		return nil
	}
	f, err := os.Open(o.load.rejects)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read rejected rows: %w", err)
	}
	defer f.Close()
	for {
		buf := make([]byte, uploadChunk)
		n, err := io.ReadFull(f, buf)
		if n > 0 {
			if err := send(&frontendpb.Event{Kind: &frontendpb.Event_Rejected{Rejected: buf[:n]}}); err != nil {
				return err
			}
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read rejected rows: %w", err)
		}
	}
}

// Fetch implements the service.
func (s *Server) Fetch(req *frontendpb.FetchRequest, out grpc.ServerStreamingServer[frontendpb.RowChunk]) error {
	x, o, err := s.operation(req.GetSession(), req.GetOperation())
	if err != nil {
		return err
	}
	defer x.busy()()
	if !o.ended() || o.op == nil {
		return fault.Bugf("fetch rows of statement %d: it has not ended, or has none", o.id)
	}
	return o.fetch(out.Context(), req.GetPage(), func(frames []byte, last bool) error {
		return out.Send(&frontendpb.RowChunk{Frames: frames, Last: last})
	})
}

// fetch gives emit the frames of a page, the next one or the one before it, and at last
// no frames and whether it is the last page.
func (o *operation) fetch(ctx context.Context, page int64, emit func(frames []byte, last bool) error) error {
	o.fetching.Lock()
	defer o.fetching.Unlock()
	switch {
	case page == o.page && (page == 0 || !o.heldLast):
		if err := o.turn(ctx); err != nil {
			return err
		}
	case page != o.page-1:
		return fault.Bugf("fetch page %d of rows: the next one is %d", page, o.page)
	}
	if len(o.held) > 0 {
		var enc frame.Encoder
		if _, err := enc.Encode(o.op.Fields(), o.held, func(f []byte) error {
			return emit(append([]byte(nil), f...), false)
		}); err != nil {
			return err
		}
	}
	return emit(nil, o.heldLast)
}

// turn reads the next page. What it has read when an error comes is kept for the
// next call.
func (o *operation) turn(ctx context.Context) error {
	size, last := int64(0), false
	for _, b := range o.part {
		size += sizeOf(b)
	}
	// One batch further, so that the last page is known as such.
	for last = false; size < o.session.server.o.PageBytes || len(o.part) < 2; {
		b, err := o.op.Next(ctx)
		if err == io.EOF {
			last = true
			break
		}
		if err != nil {
			return err
		}
		size += sizeOf(b)
		o.part = append(o.part, b)
	}
	n := len(o.part)
	if !last {
		n--
	}
	o.held, o.part = o.part[:n:n], append([]*batch.Batch(nil), o.part[n:]...)
	o.heldLast, o.page = last, o.page+1
	return nil
}

func sizeOf(b *batch.Batch) int64 {
	n := int64(b.Rows()) // rows without columns count, too
	for _, c := range b.Columns {
		n += batch.Bytes(c)
	}
	return n
}

const uploadChunk = 256 << 10

// Upload implements the service.
func (s *Server) Upload(in grpc.ClientStreamingServer[frontendpb.UploadChunk, frontendpb.Empty]) error {
	first, err := in.Recv()
	if err != nil {
		return err
	}
	x, o, err := s.operation(first.GetOperation().GetSession(), first.GetOperation().GetOperation())
	if err != nil {
		return err
	}
	defer x.busy()()
	o.mu.Lock()
	n := o.need
	o.mu.Unlock()
	if n == nil || n.id != first.GetNeed() {
		return fault.Retryablef("nobody waits for these files any more")
	}
	paths, names, err := o.receive(first, in)
	var told *clientError
	switch {
	case errors.As(err, &told):
		err = told.err
	case err != nil && in.Context().Err() != nil:
		return err // the client may try again
	}
	o.mu.Lock()
	o.names = append(o.names, names...)
	o.mu.Unlock()
	select {
	case n.answer <- answer{paths, err}:
	default: // it has one
	}
	if err != nil && told == nil {
		return err
	}
	return in.SendAndClose(&frontendpb.Empty{})
}

// clientError is an error that the client had with its files.
type clientError struct{ err error }

func (e *clientError) Error() string { return e.err.Error() }

// receive writes what a client sends to files. After an error they are gone.
func (o *operation) receive(m *frontendpb.UploadChunk, in grpc.ClientStreamingServer[frontendpb.UploadChunk, frontendpb.Empty]) (paths, names []string, err error) {
	o.mu.Lock()
	o.needs++ // a name of its own, also for a second try
	dir := filepath.Join(o.dir(), fmt.Sprint("files", o.needs))
	o.mu.Unlock()
	var f *os.File
	closeFile := func() error {
		if f == nil {
			return nil
		}
		err := f.Close()
		f = nil
		return err
	}
	defer func() {
		err = errors.Join(err, closeFile())
		if err != nil {
			_ = os.RemoveAll(dir) // what stays goes with the operation
			paths = nil
		}
	}()
	for {
		switch {
		case m.GetError() != nil:
			return nil, nil, &clientError{o.session.server.o.Errors.Decode(m.GetError())}
		case m.GetName() != "":
			if err := closeFile(); err != nil {
				return nil, nil, spoolError(err)
			}
			// The name is kept for messages and for what it says of the format;
			// where it is in the client's folders is not ours.
			base := strings.Map(func(r rune) rune {
				if r == '/' || r == '\\' || r < ' ' {
					return '_'
				}
				return r
			}, filepath.Base(m.GetName()))
			path := filepath.Join(dir, fmt.Sprint(len(paths)), "file-"+base)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				return nil, nil, spoolError(err)
			}
			if f, err = os.Create(path); err != nil {
				return nil, nil, spoolError(err)
			}
			paths, names = append(paths, path), append(names, path, m.GetName())
		}
		if len(m.GetData()) > 0 {
			if f == nil {
				return nil, nil, fault.Bugf("upload: bytes of no file")
			}
			if _, err := f.Write(m.GetData()); err != nil {
				return nil, nil, spoolError(err)
			}
		}
		if m.GetEnd() {
			if err := closeFile(); err != nil {
				return nil, nil, spoolError(err)
			}
			return paths, names, nil
		}
		if m, err = in.Recv(); err != nil {
			if err == io.EOF {
				err = fault.Retryablef("upload: it ends early")
			}
			return nil, nil, err
		}
	}
}

// spoolError is an error of the server's disk.
func spoolError(err error) error {
	return &fault.Error{Class: fault.Retryable, SQLState: "53100", Message: "the server can't keep the files", Cause: err}
}
