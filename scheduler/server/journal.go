package server

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
	"google.golang.org/protobuf/proto"

	jobspb "github.com/skepdb/skep/api/jobs"
	"github.com/skepdb/skep/cluster"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/jobs"
	"github.com/skepdb/skep/jobs/wire"
	"github.com/skepdb/skep/outputformat"
	"github.com/skepdb/skep/scheduler"
)

// Names of a journal's files; docs/format/journal.md has the format.
const (
	journalFile    = "JOBS"
	journalNewFile = "JOBS.new"
	journalFormat  = 1
)

// attemptsARestart is how far apart the attempt numbers of two schedulers with
// one journal are: the earlier one's attempts may still run.
const attemptsARestart = 1000

// maxJournalRecord bounds a record.
const maxJournalRecord = 1 << 30

// Journal keeps a scheduler's jobs for the one after it. A job is in it when
// Submit returns; winners are when their job publishes, at the latest.
type Journal struct {
	fsys  vfs.FS
	dir   string
	codec wire.Codec

	mu  sync.Mutex
	f   vfs.File
	err error // the first failure: from then on nothing is written

	restarts uint32
	restored []restored
	ended    []*jobspb.JobStatus
}

// restored is a job that had not ended.
type restored struct {
	job       *jobs.Job
	won       []scheduler.Won
	manifests map[jobs.AttemptID]outputformat.Manifest
}

// OpenJournal opens the journal in a directory, which must exist, or makes an empty one. A
// record that was cut off at the end, by a crash, is left out; damage before the end is an
// error that names the file. fingerprint says which builds understand each other's
// jobs: those of another one end here, and lost names them.
func OpenJournal(fsys vfs.FS, dir string, codec wire.Codec, fingerprint string, history int) (j *Journal, lost []jobs.ID, err error) {
	j = &Journal{fsys: fsys, dir: dir, codec: codec}
	path := fsys.PathJoin(dir, journalFile)
	records, err := readJournal(fsys, path)
	if err != nil {
		return nil, nil, err
	}
	live := map[string]*jobspb.Job{}
	won := map[string][]*jobspb.JournalWon{}
	var order []string
	same := true
	for i, r := range records {
		switch r := r.GetRecord().(type) {
		case *jobspb.JournalRecord_Header:
			if r.Header.GetFormat() != journalFormat {
				return nil, nil, fault.Userf("%s is of format %d, this skep reads format %d", path, r.Header.GetFormat(), journalFormat)
			}
			j.restarts, same = r.Header.GetRestarts(), r.Header.GetFingerprint() == fingerprint
		case *jobspb.JournalRecord_Submitted:
			live[r.Submitted.GetId()] = r.Submitted
			order = append(order, r.Submitted.GetId())
		case *jobspb.JournalRecord_Won:
			id := r.Won.GetId().GetJob()
			won[id] = append(won[id], r.Won)
		case *jobspb.JournalRecord_Ended:
			delete(live, r.Ended.GetId())
			j.ended = append(j.ended, r.Ended)
		default:
			return nil, nil, fault.Userf("%s: record %d is of an unknown kind", path, i)
		}
	}
	j.restarts++
	j.ended = j.ended[max(0, len(j.ended)-history):]
	out := []*jobspb.JournalRecord{{Record: &jobspb.JournalRecord_Header{Header: &jobspb.JournalHeader{
		Format: journalFormat, Fingerprint: fingerprint, Restarts: j.restarts}}}}
	for _, e := range j.ended {
		out = append(out, &jobspb.JournalRecord{Record: &jobspb.JournalRecord_Ended{Ended: e}})
	}
	for _, id := range order {
		p := live[id]
		if p == nil {
			continue
		}
		r, err := j.decode(p, won[id])
		if !same || err != nil {
			lost = append(lost, jobs.ID(id))
			continue
		}
		delete(live, id) // twice in the journal is once in the scheduler
		j.restored = append(j.restored, r)
		out = append(out, &jobspb.JournalRecord{Record: &jobspb.JournalRecord_Submitted{Submitted: p}})
		for _, w := range won[id] {
			out = append(out, &jobspb.JournalRecord{Record: &jobspb.JournalRecord_Won{Won: w}})
		}
	}
	return j, lost, j.rewrite(path, out)
}

func (j *Journal) decode(p *jobspb.Job, won []*jobspb.JournalWon) (restored, error) {
	r := restored{manifests: map[jobs.AttemptID]outputformat.Manifest{}}
	var err error
	if r.job, err = j.codec.JobOf(p); err != nil {
		return r, err
	}
	if err := r.job.Validate(); err != nil {
		return r, err
	}
	for _, w := range won {
		id := wire.AttemptOf(w.GetId())
		r.won = append(r.won, scheduler.Won{
			ID: id, Worker: cluster.WorkerID(w.GetWorker()), Incarnation: w.GetIncarnation(),
			Locality: jobs.Locality(min(w.GetLocality(), uint32(jobs.Anywhere))), Counters: w.GetCounters(),
		})
		m, err := j.codec.ManifestOf(w.GetManifest())
		if err != nil {
			return r, err
		}
		if m != nil {
			r.manifests[id] = *m
		}
	}
	return r, nil
}

// Outputs returns the outputs of the jobs that will be restored: what they have
// begun is not to be tidied away.
func (j *Journal) Outputs() []outputformat.Spec {
	var out []outputformat.Spec
	for _, r := range j.restored {
		if r.job.Output != nil {
			out = append(out, r.job.Output)
		}
	}
	return out
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func readJournal(fsys vfs.FS, path string) ([]*jobspb.JournalRecord, error) {
	f, err := fsys.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	data, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	var out []*jobspb.JournalRecord
	for at := 0; at < len(data); {
		rest := data[at:]
		if len(rest) < 8 {
			break // cut off
		}
		n, sum := int(binary.LittleEndian.Uint32(rest)), binary.LittleEndian.Uint32(rest[4:])
		if n > maxJournalRecord || n > len(rest)-8 {
			break // cut off, or a length that is no length: the sum of what follows can't be checked
		}
		body := rest[8 : 8+n]
		if crc32.Checksum(body, castagnoli) != sum {
			if at+8+n == len(data) {
				break // the last record was not written whole
			}
			return nil, fault.Userf("%s is damaged: the record at byte %d doesn't have its checksum", path, at)
		}
		var r jobspb.JournalRecord
		if err := proto.Unmarshal(body, &r); err != nil {
			return nil, fault.Userf("%s is damaged: the record at byte %d: %w", path, at, err)
		}
		out = append(out, &r)
		at += 8 + n
	}
	return out, nil
}

func appendRecord(dst []byte, r *jobspb.JournalRecord) ([]byte, error) {
	body, err := proto.Marshal(r)
	if err != nil {
		return nil, err
	}
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(body)))
	dst = binary.LittleEndian.AppendUint32(dst, crc32.Checksum(body, castagnoli))
	return append(dst, body...), nil
}

// rewrite puts a new file in the old one's place, and leaves it open.
func (j *Journal) rewrite(path string, records []*jobspb.JournalRecord) error {
	var data []byte
	var err error
	for _, r := range records {
		if data, err = appendRecord(data, r); err != nil {
			return err
		}
	}
	fresh := j.fsys.PathJoin(j.dir, journalNewFile)
	f, err := j.fsys.Create(fresh, vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("create %s: %w", fresh, err)
	}
	if _, err = f.Write(data); err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = j.fsys.Rename(fresh, path)
	}
	var dir vfs.File
	if err == nil {
		dir, err = j.fsys.OpenDir(j.dir)
	}
	if err == nil {
		err = errors.Join(dir.Sync(), dir.Close())
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", path, err), f.Close())
	}
	j.f = f
	return nil
}

// append writes a record; with sync it is durable when append returns. A failure
// is final: after it the file's end is not known.
func (j *Journal) append(sync bool, r *jobspb.JournalRecord) error {
	data, err := appendRecord(nil, r)
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err != nil {
		return j.err
	}
	if _, err = j.f.Write(data); err == nil && sync {
		err = j.f.Sync()
	}
	if err != nil {
		j.err = fault.Retryablef("write the journal of jobs: %w", err)
	}
	return j.err
}

// sync makes everything durable that was appended.
func (j *Journal) sync() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err == nil {
		if err := j.f.Sync(); err != nil {
			j.err = fault.Retryablef("write the journal of jobs: %w", err)
		}
	}
	return j.err
}

// Close closes the file.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.f == nil {
		return nil
	}
	err := j.f.Close()
	j.f = nil
	if j.err == nil {
		j.err = errors.New("the journal is closed")
	}
	return err
}

func (j *Journal) submitted(job *jobs.Job) error {
	p, err := j.codec.Job(job)
	if err != nil {
		return err
	}
	return j.append(true, &jobspb.JournalRecord{Record: &jobspb.JournalRecord_Submitted{Submitted: p}})
}

func (j *Journal) won(w scheduler.Won, m *outputformat.Manifest) error {
	p, err := j.codec.Manifest(m)
	if err != nil {
		return err
	}
	return j.append(false, &jobspb.JournalRecord{Record: &jobspb.JournalRecord_Won{Won: &jobspb.JournalWon{
		Id: wire.Attempt(w.ID), Worker: string(w.Worker), Incarnation: w.Incarnation,
		Locality: uint32(w.Locality), Counters: w.Counters, Manifest: p,
	}}})
}

func (j *Journal) over(status *jobs.Status, failed error) error {
	return j.append(true, &jobspb.JournalRecord{Record: &jobspb.JournalRecord_Ended{Ended: wire.Status(status, failed)}})
}

// workers are those whose map output restored jobs may want.
func (j *Journal) workers() []cluster.WorkerID {
	var out []cluster.WorkerID
	for _, r := range j.restored {
		for _, w := range r.won {
			if !slices.Contains(out, w.Worker) {
				out = append(out, w.Worker)
			}
		}
	}
	return out
}
