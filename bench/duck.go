package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// answer is what the peer says of a statement.
type answer struct {
	Millis float64    `json:"ms"`
	Rows   int        `json:"rows"`
	First  [][]string `json:"first"`
	Error  string     `json:"error"`
}

func (a answer) elapsed() time.Duration { return time.Duration(a.Millis * float64(time.Millisecond)) }

// buildDuck builds the peer, which needs a C compiler, into dir.
func buildDuck(dir string) (string, error) {
	program, err := filepath.Abs(filepath.Join(dir, "duck"))
	if err != nil {
		return "", err
	}
	cmd := exec.Command("go", "build", "-o", program, ".")
	cmd.Dir = filepath.Join("bench", "duck")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return program, nil
}

// duck is a running peer.
type duck struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func startDuck(program, file string, threads int, more ...string) (*duck, error) {
	cmd := exec.Command(program, append([]string{"-db", file, "-threads", fmt.Sprint(threads)}, more...)...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &duck{cmd: cmd, in: in, out: bufio.NewReader(out)}, nil
}

// query runs a statement, which must be one line.
func (d *duck) query(sql string) (answer, error) {
	if _, err := fmt.Fprintln(d.in, sql); err != nil {
		return answer{}, err
	}
	line, err := d.out.ReadBytes('\n')
	if err != nil {
		return answer{}, fmt.Errorf("the DuckDB peer ended: %w", err)
	}
	var a answer
	if err := json.Unmarshal(line, &a); err != nil {
		return answer{}, err
	}
	if a.Error != "" {
		return a, errors.New("DuckDB: " + a.Error)
	}
	return a, nil
}

// process is its number.
func (d *duck) process() string { return strconv.Itoa(d.cmd.Process.Pid) }

func (d *duck) close() error {
	return errors.Join(d.in.Close(), d.cmd.Wait())
}
