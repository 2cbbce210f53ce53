package frontend

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql"
)

// spaces are the name spaces of variables.
var spaces = []string{"hivevar", "hiveconf", "metaconf", "system", "env"}

// set keeps a variable, or shows some as rows.
func (s *Session) set(o *Operation, c *sql.Set) error {
	space, key, found := strings.Cut(c.Key, ":")
	if !found || !slices.Contains(spaces, space) {
		space, key = "hiveconf", c.Key
	}
	if !c.Show {
		switch space {
		case "hivevar":
			s.vars.HiveVar[key] = c.Value
		case "hiveconf":
			s.vars.HiveConf[key] = c.Value
		case "system", "metaconf":
			s.vars.other[space+":"+key] = c.Value
		default:
			return &fault.Error{Class: fault.User, SQLState: fault.StateUnsupported, Message: fmt.Sprintf("%s:%s can't be changed", space, key)}
		}
		return nil
	}
	var lines []string
	if c.Key != "" {
		value, ok := s.vars.lookup(space + ":" + key)
		if ok {
			lines = append(lines, c.Key+"="+value)
		} else {
			lines = append(lines, c.Key+" is undefined")
		}
	} else {
		for _, k := range slices.Sorted(maps.Keys(s.vars.HiveConf)) {
			lines = append(lines, k+"="+s.vars.HiveConf[k])
		}
		for _, k := range slices.Sorted(maps.Keys(s.vars.HiveVar)) {
			lines = append(lines, "hivevar:"+k+"="+s.vars.HiveVar[k])
		}
		for _, k := range slices.Sorted(maps.Keys(s.vars.other)) {
			lines = append(lines, k+"="+s.vars.other[k])
		}
	}
	rows := &sql.Rows{Fields: []schema.Field{{Name: "set", Type: schema.StringType}}}
	for _, l := range lines {
		rows.Data = append(rows.Data, []schema.Datum{{Type: schema.StringType, S: l}})
	}
	o.fields, o.cursor = rows.Fields, rows.Reader()
	return nil
}

// reset gives settings back the values that the session began with.
func (s *Session) reset(c *sql.Reset) {
	if len(c.Keys) == 0 {
		s.vars.HiveConf = maps.Clone(s.first)
		return
	}
	for _, key := range c.Keys {
		if value, ok := s.first[key]; ok {
			s.vars.HiveConf[key] = value
		} else {
			delete(s.vars.HiveConf, key)
		}
	}
}
