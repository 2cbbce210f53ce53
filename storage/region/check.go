package region

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"

	"github.com/cockroachdb/pebble/v2"
	"github.com/skepdb/skep/storage"
)

// Check implements storage.Server. It repairs nothing.
func (s *Server) Check(ctx context.Context, id storage.RegionID) ([]storage.CheckProblem, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.exit()
	r, err := s.region(ctx, id)
	if err != nil {
		return nil, err
	}
	v, err := s.read(ctx, r, storage.MaxTimestamp)
	if err != nil {
		return nil, fmt.Errorf("check region %d: %w", id, err)
	}
	c := &checker{ctx: ctx, r: r, v: v}
	err = c.run(s)
	if closeErr := v.close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return c.problems, fmt.Errorf("check region %d: %w", id, err)
	}
	return c.problems, nil
}

// checker collects what is wrong with a region.
type checker struct {
	ctx      context.Context
	r        *region
	v        *view
	problems []storage.CheckProblem
}

func (c *checker) add(file, format string, args ...any) {
	c.problems = append(c.problems, storage.CheckProblem{Region: c.r.id, File: file, Detail: fmt.Sprintf(format, args...)})
}

// run returns an error only when it couldn't go on.
func (c *checker) run(s *Server) error {
	c.checkManifest()
	m := c.v.v.m
	for i := range m.segments {
		if err := c.checkEntry(&m.segments[i], false); err != nil {
			return err
		}
	}
	for _, p := range m.pending {
		for _, a := range p.attempts {
			for i := range a.segments {
				if err := c.checkEntry(&a.segments[i], true); err != nil {
					return err
				}
			}
		}
	}
	if err := c.checkDelta(); err != nil {
		return err
	}
	// One region of a table reports what no region lists.
	for _, other := range s.ofTable(c.r.table.ID) {
		if other.st == c.r.st && other.id < c.r.id {
			return nil
		}
	}
	return c.checkUnknown()
}

// checkManifest checks that the stored manifest is the one in use.
func (c *checker) checkManifest() {
	m := c.v.v.m
	value, closer, err := c.r.st.db.Get(regionKey(keyManifest, c.r.id))
	if err != nil {
		if errors.Is(err, pebble.ErrNotFound) {
			c.add(storeDir, "the manifest is missing")
		} else {
			c.add(storeDir, "the manifest can't be read: %v", err)
		}
		return
	}
	stored, err := decodeManifest(bytes.Clone(value))
	if closeErr := closer.Close(); err == nil {
		err = closeErr
	}
	switch {
	case err != nil:
		c.add(storeDir, "%v", err)
	case stored.edit < m.edit:
		c.add(storeDir, "the stored manifest is of edit %d, the one in use of %d", stored.edit, m.edit)
	}
	if m.region.Range.Empty() {
		c.add("", "the key range is empty")
	}
	for _, g := range m.generations {
		if !m.region.Range.Covers(g.clip) {
			c.add(storeDir, "generation %d reaches outside the region", g.id)
		}
	}
}

// checkEntry checks one listed segment: ranges, files, checksums, counts.
func (c *checker) checkEntry(e *entry, pending bool) error {
	name := fileName(c.r.table.ID, e.file)
	if !c.r.rng.Covers(e.clip) {
		c.add(name, "its clip range reaches outside the region")
	}
	if !e.meta.Overlaps(e.clip) {
		c.add(name, "it has no rows in its clip range")
	}
	if !pending && !e.meta.Versions && e.begin == 0 {
		c.add(name, "it has no timestamp")
	}
	rd, err := c.v.v.files[e.file].open(e.meta, c.r.table.Key)
	if err == nil {
		err = rd.Verify(c.ctx)
	}
	if ctxErr := c.ctx.Err(); ctxErr != nil {
		return ctxErr
	}
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			c.add(name, "the file is missing: %v", err)
		} else {
			c.add(name, "%v", err)
		}
	}
	return nil
}

// checkDelta decodes every row of the delta.
func (c *checker) checkDelta() error {
	if c.v.snap == nil {
		return nil
	}
	it, err := newDeltaIter(c.v.snap, c.v.v.m.generations, c.r.rng)
	if err != nil {
		return err
	}
	rows := newRowBuilder(c.r.table.Columns)
	n := 0
	for err = it.first(); err == nil && it.valid(); err = it.next() {
		if n++; n%1024 == 0 && c.ctx.Err() != nil {
			return errors.Join(c.ctx.Err(), it.close())
		}
		if _, keyErr := c.r.enc.Decode(it.key()); keyErr != nil {
			c.add(storeDir, "delta key %x: %v", []byte(it.key()), keyErr)
		}
		value, valueErr := it.value()
		if valueErr == nil {
			_, valueErr = rows.add(value)
			rows.reset()
		}
		if valueErr != nil {
			c.add(storeDir, "delta row %s: %v", c.r.keyText(it.key()), valueErr)
		}
	}
	if err != nil {
		c.add(storeDir, "the delta can't be read: %v", err)
	}
	return it.close()
}

// checkUnknown reports files in the table's folder that no region lists.
func (c *checker) checkUnknown() error {
	own := strconv.FormatUint(uint64(c.r.table.ID), 10)
	return c.r.st.list(func(table, name string) error {
		if table != own {
			return nil
		}
		if id, ok := fileID(name); !ok || !c.r.st.known(id) {
			c.add(segmentsDir+"/"+table+"/"+name, "no region lists this file")
		}
		return nil
	})
}
