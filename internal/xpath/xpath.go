// Package xpath evaluates XPath 1.0 (W3C, 1999) over small XML documents. Left out: the namespace
// axis, variables and id().
package xpath

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// Kind is the kind of a node.
type Kind uint8

// The kinds.
const (
	Root Kind = iota
	Element
	Attribute
	Text
	Comment
	Instruction
)

// Node is a node of a document.
type Node struct {
	Kind       Kind
	Name       string // with its prefix as written
	Data       string // of attributes, texts and comments
	Parent     *Node
	Children   []*Node
	Attributes []*Node
	order      int // in the document
}

// maxDepth bounds the nesting of documents and expressions.
const maxDepth = 500

// Parse reads a document.
func Parse(text string) (*Node, error) {
	d := xml.NewDecoder(strings.NewReader(text))
	d.Strict = true
	d.CharsetReader = func(_ string, r io.Reader) (io.Reader, error) { return r, nil }
	root := &Node{Kind: Root}
	at, order, depth, elements := root, 0, 0, 0
	add := func(n *Node) *Node {
		order++
		n.Parent, n.order = at, order
		return n
	}
	for {
		token, err := d.RawToken()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("reading XML: %w", err)
		}
		switch t := token.(type) {
		case xml.StartElement:
			if depth++; depth > maxDepth {
				return nil, errors.New("reading XML: nested too deeply")
			}
			if at == root {
				elements++
			}
			n := add(&Node{Kind: Element, Name: qualified(t.Name)})
			at.Children = append(at.Children, n)
			at = n
			for _, a := range t.Attr {
				if a.Name.Space == "xmlns" || a.Name.Space == "" && a.Name.Local == "xmlns" {
					continue
				}
				n.Attributes = append(n.Attributes, add(&Node{Kind: Attribute, Name: qualified(a.Name), Data: a.Value}))
			}
		case xml.EndElement:
			if at.Name != qualified(t.Name) || at == root {
				return nil, fmt.Errorf("reading XML: </%s> ends nothing", qualified(t.Name))
			}
			at = at.Parent
			depth--
		case xml.CharData:
			if at == root {
				if strings.TrimSpace(string(t)) != "" {
					return nil, errors.New("reading XML: text outside of the root element")
				}
				continue
			}
			if k := len(at.Children) - 1; k >= 0 && at.Children[k].Kind == Text {
				at.Children[k].Data += string(t)
			} else {
				at.Children = append(at.Children, add(&Node{Kind: Text, Data: string(t)}))
			}
		case xml.Comment:
			at.Children = append(at.Children, add(&Node{Kind: Comment, Data: string(t)}))
		case xml.ProcInst:
			if t.Target != "xml" {
				at.Children = append(at.Children, add(&Node{Kind: Instruction, Name: t.Target, Data: string(t.Inst)}))
			}
		}
	}
	if at != root || elements != 1 {
		return nil, errors.New("reading XML: there must be one root element, and it must end")
	}
	return root, nil
}

func qualified(n xml.Name) string {
	if n.Space == "" {
		return n.Local
	}
	return n.Space + ":" + n.Local
}

// Text returns a node's string-value.
func (n *Node) Text() string {
	switch n.Kind {
	case Root, Element:
		var b strings.Builder
		n.appendText(&b)
		return b.String()
	}
	return n.Data
}

func (n *Node) appendText(b *strings.Builder) {
	for _, c := range n.Children {
		switch c.Kind {
		case Text:
			b.WriteString(c.Data)
		case Element:
			c.appendText(b)
		}
	}
}

// Value is the result of an expression: one of its fields, by Type.
type Value struct {
	Type   Type
	Nodes  []*Node // in document order
	Number float64
	String string
	Bool   bool
}

// Type is the type of a Value.
type Type uint8

// The types.
const (
	NodeSet Type = iota
	Number
	String
	Boolean
)

// ToString converts as XPath's string().
func (v Value) ToString() string {
	switch v.Type {
	case NodeSet:
		if len(v.Nodes) == 0 {
			return ""
		}
		return v.Nodes[0].Text()
	case Number:
		switch {
		case math.IsNaN(v.Number):
			return "NaN"
		case math.IsInf(v.Number, 1):
			return "Infinity"
		case math.IsInf(v.Number, -1):
			return "-Infinity"
		case v.Number == 0:
			return "0"
		}
		return strconv.FormatFloat(v.Number, 'f', -1, 64)
	case Boolean:
		return strconv.FormatBool(v.Bool)
	}
	return v.String
}

// ToNumber converts as XPath's number().
func (v Value) ToNumber() float64 {
	switch v.Type {
	case Number:
		return v.Number
	case Boolean:
		if v.Bool {
			return 1
		}
		return 0
	}
	s := strings.Trim(v.ToString(), " \t\r\n")
	for i, c := range s {
		if (c < '0' || c > '9') && c != '.' && (c != '-' || i > 0) {
			return math.NaN()
		}
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return math.NaN()
	}
	return f
}

// ToBool converts as XPath's boolean().
func (v Value) ToBool() bool {
	switch v.Type {
	case NodeSet:
		return len(v.Nodes) > 0
	case Number:
		return v.Number != 0 && !math.IsNaN(v.Number)
	case Boolean:
		return v.Bool
	}
	return v.String != ""
}
