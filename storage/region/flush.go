package region

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/storage"
	"github.com/skepdb/skep/storage/region/segment"
)

// Flush implements storage.Server.
func (s *Server) Flush(ctx context.Context, id storage.RegionID) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.exit()
	r, err := s.region(ctx, id)
	if err != nil {
		return err
	}
	return s.flush(ctx, r)
}

// wrote flushes a region whose delta has become large: in the background, or
// here and now when the background can't keep up.
func (s *Server) wrote(r *region) {
	size := r.deltaBytes.Load()
	if size < s.o.FlushBytes || r.st.err() != nil {
		return
	}
	if size > 4*s.o.FlushBytes {
		// The writer waits; an error shows at the next try and costs only space.
		if err := s.flush(s.ctx, r); err != nil {
			r.st.log.Warn("flush", "region", uint64(r.id), "error", err)
		}
		return
	}
	if !r.flushing.CompareAndSwap(false, true) {
		return
	}
	s.background.Go(func() {
		defer r.flushing.Store(false)
		if err := s.flush(s.ctx, r); err != nil && !errors.Is(err, storage.ErrRegionGone) && s.ctx.Err() == nil {
			r.st.log.Warn("flush", "region", uint64(r.id), "error", err)
		}
	})
}

// flush makes a segment of the region's delta: it rotates to a new generation,
// writes the older ones to a file, syncs it, and then swaps them for the file
// in one edit. A crash before that leaves the generations, and an orphan.
func (s *Server) flush(ctx context.Context, r *region) error {
	if !r.table.Keyed() {
		return nil
	}
	r.flushMu.Lock()
	defer r.flushMu.Unlock()
	floor, err := s.o.Authority.Floor(ctx)
	if err != nil {
		return fmt.Errorf("flush %s: history floor: %w", r.table.Name, err)
	}
	old, counted, err := r.rotate()
	if err != nil || len(old) == 0 {
		return err
	}
	// Whatever is pending after this commits above every row of old: a
	// deletion there can't be needed by it.
	err = s.settle(ctx, r, storage.MaxTimestamp)
	if err == nil {
		err = r.writeGenerations(ctx, s.o, old, floor)
	}
	if err != nil {
		return fmt.Errorf("flush region %d of %s: %w", r.id, r.table.Name, err)
	}
	r.deltaRows.Add(-counted.rows)
	r.deltaBytes.Add(-counted.bytes)
	return nil
}

// rotate gives the region a new live generation and returns those before it.
// If the live one is empty it stays.
func (r *region) rotate() (old []generation, counted deltaSize, err error) {
	r.editMu.Lock()
	defer r.editMu.Unlock()
	// No put is between choosing its generation and being applied there.
	r.latch.Lock()
	defer r.latch.Unlock()
	counted = deltaSize{r.deltaRows.Load(), r.deltaBytes.Load()}
	cur, err := r.current()
	if err != nil {
		return nil, counted, err
	}
	live := cur.live()
	empty, err := r.emptyDelta([]generation{live})
	if err != nil {
		return nil, counted, err
	}
	if empty {
		return slices.Clone(cur.generations[:len(cur.generations)-1]), counted, nil
	}
	m := cur.clone()
	m.generations = append(m.generations, generation{id: r.st.newID(), clip: r.rng})
	if err := r.st.install([]change{{r, m}}, nil); err != nil {
		return nil, counted, fmt.Errorf("rotate: %w", err)
	}
	return cur.generations, counted, nil
}

// deltaSize is what the region's counters said.
type deltaSize struct{ rows, bytes int64 }

// writeGenerations writes closed generations to a segment and installs it.
// Nothing changes in them any more, so a plain Pebble read sees them whole.
func (r *region) writeGenerations(ctx context.Context, o Options, old []generation, floor storage.Timestamp) error {
	m, err := r.current()
	if err != nil {
		return err
	}
	since := erasOf(m.truncates, floor)
	kept, err := r.survey(ctx, m, old, floor, since)
	if err != nil {
		return err
	}
	var e *entry
	if kept.rows > 0 {
		if err := r.st.tableDir(r.table.ID); err != nil {
			return err
		}
		id := r.st.newFile()
		defer r.st.doneWriting(id)
		meta, err := r.writeFlushed(ctx, o, m, old, floor, since, id, kept)
		if err != nil {
			return err
		}
		e = &entry{file: id, clip: r.rng, meta: meta}
	}
	err = r.edit(func(m *manifest) (bool, error) {
		m.generations = slices.DeleteFunc(m.generations, func(g generation) bool {
			return slices.ContainsFunc(old, func(o generation) bool { return o.id == g.id })
		})
		if e != nil {
			m.segments = append(m.segments, *e)
		}
		if kept.dropped > 0 {
			m.floor = max(m.floor, floor)
		}
		// Puts to the generations that are left came after floor was asked for.
		m.collect(floor, len(m.pending) == 0)
		return true, nil
	}, func(b *pebble.Batch) error { return deleteGenerations(b, old) })
	if err != nil {
		// When the commit itself failed, the batch may still be found at the
		// next open: then the file is needed.
		if e != nil && r.st.err() == nil {
			err = errors.Join(err, r.st.removeFile(r.table.ID, e.file))
		}
		return err
	}
	return nil
}

// survey is what a pass over the generations found.
type survey struct {
	rows       int64 // to be kept
	tombstones int64 // among them
	dropped    int64
}

// survey counts which rows a flush will keep.
func (r *region) survey(ctx context.Context, m *manifest, old []generation, floor storage.Timestamp, since eras) (survey, error) {
	var s survey
	err := r.eachKept(ctx, m, old, floor, since, func(it *deltaIter, keep, deleted bool) error {
		switch {
		case !keep:
			s.dropped++
		default:
			s.rows++
			if deleted {
				s.tombstones++
			}
		}
		return nil
	})
	return s, err
}

// eachKept calls f for each row of the generations, by key and newest first,
// and says whether it must be kept: versions above the floor, and the newest at
// or below it, unless that is a deletion with nothing older to delete.
func (r *region) eachKept(ctx context.Context, m *manifest, old []generation, floor storage.Timestamp, since eras, f func(it *deltaIter, keep, deleted bool) error) error {
	it, err := newDeltaIter(r.st.db, old, r.rng)
	if err != nil {
		return err
	}
	var last storage.Key
	var have, settled bool // settled: a version at or below the floor was seen
	n, era := 0, 0
	for err = it.first(); err == nil && it.valid(); err = it.next() {
		if n++; n%1024 == 0 && ctx.Err() != nil {
			err = ctx.Err()
			break
		}
		if !have || !bytes.Equal(last, it.key()) {
			last, have, settled = append(last[:0], it.key()...), true, false
			era = since.move(era, last)
		}
		v, vErr := it.value()
		if vErr != nil {
			err = vErr
			break
		}
		row, rErr := openRow(v)
		if rErr != nil {
			err = fmt.Errorf("key %s: %w", r.keyText(it.key()), rErr)
			break
		}
		keep := !settled && it.ts() >= since[era].since
		if it.ts() <= floor {
			settled = true
			if keep && row.deleted && !m.mayHold(it.key()) {
				keep = false
			}
		}
		if err = f(it, keep, row.deleted); err != nil {
			break
		}
	}
	return errors.Join(err, it.close())
}

// mayHold reports whether some segment may have a row with this key.
func (m *manifest) mayHold(key storage.Key) bool {
	for i := range m.segments {
		e := &m.segments[i]
		if bytes.Compare(key, e.meta.FirstKey) >= 0 && bytes.Compare(key, e.meta.LastKey) <= 0 {
			return true
		}
	}
	return false
}

// writeFlushed writes the kept rows to a file.
func (r *region) writeFlushed(ctx context.Context, o Options, m *manifest, old []generation, floor storage.Timestamp, since eras, id uint64, kept survey) (segment.Meta, error) {
	w, err := segment.Create(segment.Options{
		FS: r.st.folder.FS(), Path: r.st.filePath(r.table.ID, id),
		Columns: r.table.Columns, SchemaVersion: r.table.Version, Key: r.table.Key, Partitioned: r.table.Partitioned,
		Versions: true, Tombstones: kept.tombstones > 0, RowGroupRows: o.RowGroupRows,
	})
	if err != nil {
		return segment.Meta{}, err
	}
	rows := newRowBuilder(r.table.Columns)
	c := &segment.Chunk{}
	write := func() error {
		if rows.n == 0 {
			return nil
		}
		rows.finish(c)
		sr := segment.Rows{Batch: &c.Batch, Keys: c.Keys, Begin: c.Begin}
		if kept.tombstones > 0 {
			sr.Deleted = c.Deleted
		}
		err := w.Append(sr)
		c = &segment.Chunk{}
		return err
	}
	err = r.eachKept(ctx, m, old, floor, since, func(it *deltaIter, keep, deleted bool) error {
		if !keep {
			return nil
		}
		if err := addDeltaRow(it, rows, c); err != nil {
			return err
		}
		if rows.n == batch.MaxRows || rows.bytes > 4<<20 {
			return write()
		}
		return nil
	})
	if err == nil {
		err = write()
	}
	if err != nil {
		return segment.Meta{}, errors.Join(err, w.Abort())
	}
	meta, err := w.Finish()
	if err != nil {
		return segment.Meta{}, errors.Join(err, w.Abort())
	}
	return meta, nil
}
