package region

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/storage"
	"github.com/skepdb/skep/storage/region/segment"
	"github.com/skepdb/skep/storage/rowkey"
)

// stageWriter writes one attempt's rows to files that no manifest lists until
// Finish. Sorted rows and those of keyless tables stream into their files.
// Others are kept, sorted and written as sorted runs; Finish merges the runs,
// so that an attempt has one file a region, which don't overlap.
type stageWriter struct {
	s       *Server
	t       *storage.Table
	o       storage.StageOptions
	regions []storage.Region // by key
	enc     *rowkey.Encoder
	keyCols []int        // positions of the row key's columns
	ids     *implicitIDs // of a keyless, partitioned table

	out    *stageFile // being written
	files  []*stageFile
	last   storage.Key // of sorted rows: the key before
	rows   int64       // written to files
	dups   int64
	err    error // why nothing more can be written
	listed []storage.RegionID
	done   bool

	sorter sorter
	runs   []*stageFile // sorted runs over all regions
}

// stageFile is a file of an attempt.
type stageFile struct {
	st   *store
	id   uint64
	rng  storage.KeyRange // of the region it is for
	w    *segment.Writer
	meta segment.Meta
	runs runList // of a keyless table
}

// Stage implements storage.Server.
func (s *Server) Stage(ctx context.Context, t *storage.Table, regions []storage.Region, o storage.StageOptions) (storage.StageWriter, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.exit()
	w := &stageWriter{s: s, t: t, o: o, regions: slices.Clone(regions)}
	slices.SortFunc(w.regions, func(a, b storage.Region) int { return bytes.Compare(a.Range.Start, b.Range.Start) })
	if len(regions) == 0 || o.Attempt == "" {
		return nil, fault.Bugf("stage into %s: no regions, or an attempt without a name", t.Name)
	}
	for _, r := range regions {
		if r.Table != t.ID || r.Folder < 0 || r.Folder >= len(s.stores) {
			return nil, fault.Bugf("stage into %s: region %d of table %d in folder %d can't be meant", t.Name, r.ID, r.Table, r.Folder)
		}
	}
	for _, c := range t.KeyColumns() {
		w.keyCols = append(w.keyCols, t.Columns.ByID(c.ID))
	}
	w.enc = rowkey.ForTable(t)
	if t.Partitioned && !t.Keyed() {
		w.ids = newImplicitIDs(o)
	}
	return w, nil
}

// Write implements storage.StageWriter.
func (w *stageWriter) Write(ctx context.Context, b *batch.Batch) error {
	if w.err != nil {
		return w.err
	}
	if err := w.write(ctx, b); err != nil {
		w.err = fmt.Errorf("stage into %s: %w", w.t.Name, err)
		return w.err
	}
	return nil
}

func (w *stageWriter) write(ctx context.Context, b *batch.Batch) error {
	if err := w.s.enter(); err != nil {
		return err
	}
	defer w.s.exit()
	if w.done {
		return fault.Bugf("write after Finish")
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if b.Rows() == 0 {
		return nil
	}
	ids, arrays, err := partitionIDs(w.t, b)
	if err != nil {
		return err
	}
	b = &batch.Batch{Columns: arrays, Len: b.Len, Sel: b.Sel}
	if err := w.checkBatch(b); err != nil {
		return err
	}
	var keys segment.Keys
	switch {
	case w.ids != nil:
		if w.ids.ascend(batch.Values[int32](ids[0]), b.Sel) {
			return w.writeSorted(b, w.ids.keys(batch.Values[int32](ids[0]), b.Sel))
		}
		if err := w.stopStreaming(); err != nil {
			return err
		}
		keys = w.ids.keys(batch.Values[int32](ids[0]), b.Sel)
	case !w.t.Keyed():
		return w.writeKeyless(b)
	default:
		if keys, err = w.keysOf(ids, b); err != nil {
			return err
		}
	}
	if w.o.Sorted {
		return w.writeSorted(b, keys)
	}
	w.sorter.add(b, keys)
	if w.sorter.bytes < w.s.o.StageBytes {
		return nil
	}
	return w.spill(ctx)
}

// checkBatch checks types and NOT NULL.
func (w *stageWriter) checkBatch(b *batch.Batch) error {
	if len(b.Columns) != len(w.t.Columns) {
		return fault.Bugf("the batch has %d columns, the table %d", len(b.Columns), len(w.t.Columns))
	}
	for i, c := range w.t.Columns {
		if err := checkArray(c, c.Type, b.Columns[i], b.Len); err != nil {
			return err
		}
		if !c.NotNull {
			continue
		}
		valid := batch.Validity(b.Columns[i])
		if valid == nil {
			continue
		}
		for k := range b.Rows() {
			row := k
			if b.Sel != nil {
				row = int(b.Sel[k])
			}
			if !batch.BitSet(valid, row) {
				return fault.Userf("column %s is NOT NULL, and a row has NULL there", c.Name)
			}
		}
	}
	return nil
}

func (w *stageWriter) keysOf(ids []arrow.Array, b *batch.Batch) (segment.Keys, error) {
	cols := ids
	for _, c := range w.keyCols {
		cols = append(cols, b.Columns[c])
	}
	bound, err := w.enc.Bind(cols)
	if err != nil {
		return segment.Keys{}, err
	}
	n := b.Rows()
	var keys segment.Keys
	keys.Data, keys.Offsets = bound.AppendAll(make([]byte, 0, 12*n), make([]uint32, 0, n+1), b.Sel, b.Len)
	return keys, nil
}

// create starts a file.
func (w *stageWriter) create(st *store, rng storage.KeyRange) (*stageFile, error) {
	if err := st.err(); err != nil {
		return nil, err
	}
	if err := st.tableDir(w.t.ID); err != nil {
		return nil, err
	}
	f := &stageFile{st: st, id: st.newFile(), rng: rng}
	sw, err := segment.Create(segment.Options{
		FS: st.folder.FS(), Path: st.filePath(w.t.ID, f.id),
		Columns: w.t.Columns, SchemaVersion: w.t.Version, Key: w.t.Key, Partitioned: w.t.Partitioned, RowGroupRows: w.s.o.RowGroupRows,
	})
	if err != nil {
		st.doneWriting(f.id)
		return nil, err
	}
	f.w = sw
	return f, nil
}

// finishFile makes the file being written durable.
func (w *stageWriter) finishFile() error {
	f := w.out
	if f == nil {
		return nil
	}
	f.w.SetRuns(f.runs)
	meta, err := f.w.Finish()
	if err != nil {
		return err
	}
	f.meta = meta
	w.rows += meta.Rows
	w.files = append(w.files, f)
	w.out = nil
	return nil
}

// writeKeyless appends to the one file of the attempt, in the region that the
// task's number picks.
func (w *stageWriter) writeKeyless(b *batch.Batch) error {
	if w.out == nil {
		r, stripe, err := w.pickRegion()
		if err != nil {
			return err
		}
		f, err := w.create(w.s.stores[r.Folder], r.Range)
		if err != nil {
			return err
		}
		f.runs = runList{{Stripe: stripe, Load: uint64(w.o.Txn), Task: uint32(w.o.Task)}}
		w.out = f
	}
	w.out.runs[0].Count += int64(b.Rows())
	return w.out.w.Append(segment.Rows{Batch: b})
}

// pickRegion returns the region that takes a keyless attempt's rows, and the
// stripe to use: the lowest whose rows of this load lie in the region. A
// region that was split off in the middle of a stripe may have none.
func (w *stageWriter) pickRegion() (storage.Region, uint16, error) {
	type choice struct {
		r      storage.Region
		stripe uint16
	}
	var able []choice
	for _, r := range w.regions {
		first := uint16(0)
		if len(r.Range.Start) >= 2 {
			first = uint16(r.Range.Start[0])<<8 | uint16(r.Range.Start[1])
		}
		for _, stripe := range []uint16{first, first + 1} {
			if r.Range.Contains(rowkey.Implicit(stripe, uint64(w.o.Txn), uint32(w.o.Task), 0)) {
				able = append(able, choice{r, stripe})
				break
			}
		}
	}
	if len(able) == 0 {
		return storage.Region{}, 0, fault.Retryablef("no region here can take new rows: %w", storage.ErrRegionGone)
	}
	c := able[w.o.Task%len(able)]
	return c.r, c.stripe, nil
}

// writeSorted appends rows with ascending keys to the files of their regions.
func (w *stageWriter) writeSorted(b *batch.Batch, keys segment.Keys) error {
	n := keys.Len()
	for i := range n {
		if k := keys.At(i); w.last != nil && bytes.Compare(w.last, k) >= 0 {
			return fault.Bugf("rows promised to be sorted by key aren't: %x after %x", []byte(k), []byte(w.last))
		}
		w.last = keys.At(i)
	}
	for from := 0; from < n; {
		r, err := w.regionOf(keys.At(from))
		if err != nil {
			return err
		}
		to := n
		if len(r.Range.End) > 0 {
			to = from + sort.Search(n-from, func(i int) bool { return bytes.Compare(keys.At(from+i), r.Range.End) >= 0 })
		}
		if w.out == nil || !bytes.Equal(w.out.rng.Start, r.Range.Start) {
			if err := w.finishFile(); err != nil {
				return err
			}
			if w.out, err = w.create(w.s.stores[r.Folder], r.Range); err != nil {
				return err
			}
		}
		if err := w.out.append(rowsOf(b, from, to), segment.Keys{Offsets: keys.Offsets[from : to+1], Data: keys.Data}, w.t); err != nil {
			return err
		}
		from = to
	}
	return nil
}

// rowsOf returns rows [from, to) of the selected ones.
func rowsOf(b *batch.Batch, from, to int) *batch.Batch {
	if from == 0 && to == b.Rows() {
		return b
	}
	out := *b
	if b.Sel != nil {
		out.Sel = b.Sel[from:to]
		return &out
	}
	out.Columns = make([]arrow.Array, len(b.Columns))
	for i, c := range b.Columns {
		out.Columns[i] = batch.Slice(c, from, to)
	}
	out.Len = to - from
	return &out
}

func (w *stageWriter) regionOf(k storage.Key) (storage.Region, error) {
	i := sort.Search(len(w.regions), func(i int) bool { return bytes.Compare(w.regions[i].Range.Start, k) > 0 }) - 1
	if i < 0 || !w.regions[i].Range.Contains(k) {
		return storage.Region{}, fault.Retryablef("the key %x lies in none of the regions given: %w", []byte(k), storage.ErrRegionGone)
	}
	return w.regions[i], nil
}

// spill writes what is kept as a sorted run.
func (w *stageWriter) spill(ctx context.Context) error {
	f, err := w.create(w.s.stores[w.regions[0].Folder], storage.KeyRange{})
	if err != nil {
		return err
	}
	w.runs = append(w.runs, f)
	dups, err := w.sorter.drain(ctx, func(b *batch.Batch, keys segment.Keys) error {
		return f.append(b, keys, w.t)
	})
	if err != nil {
		return err
	}
	w.dups += dups
	f.w.SetRuns(f.runs)
	f.meta, err = f.w.Finish()
	return err
}

// finishUnsorted writes what is kept, and the runs if there are any, to the
// regions' files.
func (w *stageWriter) finishUnsorted(ctx context.Context) error {
	if len(w.runs) == 0 {
		dups, err := w.sorter.drain(ctx, w.writeSorted)
		w.dups += dups
		return err
	}
	if w.sorter.rows > 0 {
		if err := w.spill(ctx); err != nil {
			return err
		}
	}
	var st storage.ScanStats
	m := &merger{at: storage.MaxTimestamp, since: eras{{}}, width: len(w.t.Columns), ordered: true, keys: true}
	var readers []*segment.Reader
	err := func() error {
		for _, f := range w.runs {
			rd, err := segment.Open(f.st.folder.FS(), f.st.filePath(w.t.ID, f.id), f.meta, w.t.Key, nil)
			if err != nil {
				return err
			}
			readers = append(readers, rd)
			sc, err := rd.Scan(segment.ScanOptions{Columns: w.t.Columns, NeedKeys: true})
			if err != nil {
				return err
			}
			m.inputs = append(m.inputs, &input{src: sc, stats: &st})
		}
		return each(ctx, m, func(c *segment.Chunk) error { return w.writeSorted(&c.Batch, c.Keys) })
	}()
	err = errors.Join(err, m.close())
	for _, rd := range readers {
		err = errors.Join(err, rd.Close())
	}
	w.dups += st.Superseded
	return err
}

// Finish implements storage.StageWriter.
func (w *stageWriter) Finish(ctx context.Context) (storage.Staged, error) {
	if w.err != nil {
		return storage.Staged{}, w.err
	}
	out, err := w.finish(ctx)
	if err != nil {
		w.err = fmt.Errorf("stage into %s: %w", w.t.Name, err)
		return storage.Staged{}, w.err
	}
	return out, nil
}

func (w *stageWriter) finish(ctx context.Context) (storage.Staged, error) {
	out := storage.Staged{Attempt: w.o.Attempt}
	if err := w.s.enter(); err != nil {
		return out, err
	}
	defer w.s.exit()
	if w.done {
		return out, fault.Bugf("Finish was called twice")
	}
	if err := w.finishUnsorted(ctx); err != nil {
		return out, err
	}
	if err := w.finishFile(); err != nil {
		return out, err
	}
	if err := w.dropRuns(); err != nil {
		return out, err
	}
	if err := w.s.list(ctx, w); err != nil {
		return out, err
	}
	w.done = true
	out.Rows, out.Duplicates, out.Regions = w.rows, w.dups, w.listed
	for _, f := range w.files {
		out.Bytes += f.meta.Bytes
		f.st.doneWriting(f.id)
	}
	return out, nil
}

func (w *stageWriter) dropRuns() error {
	var errs []error
	for _, f := range w.runs {
		errs = append(errs, f.st.removeFile(w.t.ID, f.id))
		f.st.doneWriting(f.id)
	}
	w.runs = nil
	return errors.Join(errs...)
}

// Abort implements storage.StageWriter.
func (w *stageWriter) Abort() error {
	if w.err == nil {
		w.err = fault.Bugf("stage into %s: the writer was aborted", w.t.Name)
	}
	if err := w.s.enter(); err != nil {
		return nil // the next open collects the files
	}
	defer w.s.exit()
	var errs []error
	if w.done {
		return w.s.unlist(context.Background(), w)
	}
	if w.out != nil {
		errs = append(errs, w.out.w.Abort())
		w.out.st.doneWriting(w.out.id)
		w.out = nil
	}
	for _, f := range w.runs {
		errs = append(errs, f.w.Abort())
	}
	errs = append(errs, w.dropRuns())
	for _, f := range w.files {
		if f.st.err() == nil && !f.st.listedFile(f.id) {
			errs = append(errs, f.st.removeFile(w.t.ID, f.id))
		}
		f.st.doneWriting(f.id)
	}
	w.files = nil
	w.sorter = sorter{}
	return errors.Join(errs...)
}

func (s *store) listedFile(id uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.files[id]
	return ok
}

// pendingIn returns which of an attempt's files each live region lists,
// clipped to it, and fails when a file has rows for keys that are elsewhere.
func pendingIn(files []*stageFile, regions []*region) (map[*region][]entry, error) {
	out := map[*region][]entry{}
	for _, f := range files {
		span := storage.KeyRange{Start: f.meta.FirstKey, End: after(f.meta.LastKey)}
		next := span.Start
		for _, r := range regions {
			clip, ok := r.rng.Intersect(span)
			if !ok || r.st != f.st || !bytes.Equal(clip.Start, next) {
				continue
			}
			out[r] = append(out[r], entry{file: f.id, clip: r.rng, meta: f.meta})
			next = clip.End
		}
		if !bytes.Equal(next, span.End) {
			return nil, fault.Retryablef("the region of key %x: %w", []byte(next), storage.ErrRegionGone)
		}
	}
	return out, nil
}

// list makes an attempt's files pending in the regions that now hold their
// keys: one synced batch a data folder.
func (s *Server) list(ctx context.Context, w *stageWriter) error {
	if len(w.files) == 0 {
		return nil
	}
	// A split may fall between looking at the catalogue and at our regions.
	const tries = 20
	for try := 1; ; try++ {
		regions, err := s.liveOf(ctx, w.t)
		if err != nil {
			return err
		}
		again, err := s.listIn(ctx, w, regions)
		if errors.Is(err, storage.ErrRegionGone) && try < tries {
			continue
		}
		if err != nil || !again {
			return err
		}
	}
}

// liveOf returns the table's regions here that the catalogue knows, by key. A
// region that it doesn't know is one that was, or never became, part of the
// table; one in the middle of a split counts until that is over.
func (s *Server) liveOf(ctx context.Context, t *storage.Table) ([]*region, error) {
	known, err := s.o.Authority.Regions(ctx, t.ID)
	if err != nil {
		return nil, fmt.Errorf("regions of %s: %w", t.Name, err)
	}
	ids := map[storage.RegionID]bool{}
	for _, r := range known {
		ids[r.ID] = true
	}
	var out []*region
	s.mu.RLock()
	for _, r := range s.regions {
		if r.table.ID == t.ID && (ids[r.id] || s.splits[r.id] != nil) {
			out = append(out, r)
		}
	}
	s.mu.RUnlock()
	slices.SortFunc(out, func(a, b *region) int { return bytes.Compare(a.rng.Start, b.rng.Start) })
	return out, nil
}

// listIn asks for another try when a region was split meanwhile.
func (s *Server) listIn(ctx context.Context, w *stageWriter, regions []*region) (again bool, err error) {
	want, err := pendingIn(w.files, regions)
	if err != nil {
		return false, err
	}
	var rs []*region
	for _, r := range regions {
		if want[r] != nil {
			rs = append(rs, r)
		}
	}
	defer lockEdits(rs)()
	// An attempt that comes too late must not leave anything behind.
	out, err := s.o.Authority.Outcome(ctx, w.o.Txn)
	if err != nil {
		return false, fmt.Errorf("outcome of transaction %d: %w", w.o.Txn, err)
	}
	if out.State != storage.Undecided {
		return false, fault.Retryablef("transaction %d is already decided", w.o.Txn)
	}
	changes := map[*store][]change{}
	for _, r := range rs {
		cur, err := r.current()
		if errors.Is(err, storage.ErrRegionGone) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		m := cur.clone()
		i := m.txn(w.o.Txn)
		if i < 0 {
			i = len(m.pending)
			m.pending = append(m.pending, pendingTxn{txn: w.o.Txn})
		}
		p := &m.pending[i]
		if slices.ContainsFunc(p.attempts, func(a attempt) bool { return a.name == w.o.Attempt }) {
			return false, fault.Bugf("attempt %s has staged already", w.o.Attempt)
		}
		p.attempts = append(p.attempts, attempt{name: w.o.Attempt, segments: want[r]})
		changes[r.st] = append(changes[r.st], change{r, m})
		w.listed = append(w.listed, r.id)
	}
	for st, cs := range changes {
		if err := st.install(cs, nil); err != nil {
			return false, err
		}
	}
	return false, nil
}

// unlist takes back what Finish listed, unless the attempt has won.
func (s *Server) unlist(ctx context.Context, w *stageWriter) error {
	out, err := s.o.Authority.Outcome(ctx, w.o.Txn)
	if err != nil {
		return fmt.Errorf("abort stage into %s: %w", w.t.Name, err)
	}
	if out.State == storage.Committed {
		return nil
	}
	var errs []error
	for _, r := range s.ofTable(w.t.ID) {
		err := r.edit(func(m *manifest) (bool, error) {
			i := m.txn(w.o.Txn)
			if i < 0 {
				return false, nil
			}
			p := &m.pending[i]
			n := len(p.attempts)
			p.attempts = slices.DeleteFunc(p.attempts, func(a attempt) bool { return a.name == w.o.Attempt })
			if len(p.attempts) == 0 && len(p.truncates) == 0 {
				m.pending = slices.Delete(m.pending, i, i+1)
				return true, nil
			}
			return n != len(p.attempts), nil
		}, nil)
		if err != nil && !errors.Is(err, storage.ErrRegionGone) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
