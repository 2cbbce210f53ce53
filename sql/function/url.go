package function

import (
	"strconv"
	"strings"
)

// javaURL is a URL as java.net.URL takes it apart. A part that isn't there is not ok.
type javaURL struct {
	protocol, authority, userInfo, host, path, query, ref string
	hasAuthority, hasUserInfo, hasQuery, hasRef           bool
}

// javaProtocols are those that java.net.URL has handlers for; it refuses others.
var javaProtocols = map[string]bool{"http": true, "https": true, "ftp": true, "file": true, "jar": true, "mailto": true}

// parseJavaURL follows the constructor of java.net.URL and URLStreamHandler.parseURL.
func parseJavaURL(s string) (u javaURL, ok bool) {
	s = strings.TrimFunc(s, func(r rune) bool { return r <= ' ' })
	if len(s) >= 4 && strings.EqualFold(s[:4], "url:") {
		s = s[4:]
	}
	colon := strings.IndexAny(s, ":/")
	if colon <= 0 || s[colon] != ':' {
		return u, false
	}
	u.protocol = strings.ToLower(s[:colon])
	if !javaProtocols[u.protocol] {
		return u, false
	}
	rest := s[colon+1:]
	if k := strings.IndexByte(rest, '#'); k >= 0 {
		u.ref, u.hasRef = rest[k+1:], true
		rest = rest[:k]
	}
	if k := strings.IndexByte(rest, '?'); k >= 0 {
		u.query, u.hasQuery = rest[k+1:], true
		rest = rest[:k]
	}
	if strings.HasPrefix(rest, "//") {
		rest = rest[2:]
		end := strings.IndexByte(rest, '/')
		if end < 0 {
			end = len(rest)
		}
		u.authority, u.hasAuthority = rest[:end], true
		rest = rest[end:]
		u.host = u.authority
		if k := strings.IndexByte(u.host, '@'); k >= 0 {
			if strings.LastIndexByte(u.host, '@') == k {
				u.userInfo, u.hasUserInfo = u.host[:k], true
				u.host = u.host[k+1:]
			} else {
				u.host = ""
			}
		}
		if !u.cutPort() {
			return javaURL{}, false
		}
	}
	u.path = rest
	if u.hasAuthority || strings.HasPrefix(u.path, "/") {
		u.path = withoutDots(u.path)
	}
	return u, true
}

// cutPort cuts the port off the host and checks it.
func (u *javaURL) cutPort() bool {
	var port string
	switch {
	case strings.HasPrefix(u.host, "["):
		end := strings.IndexByte(u.host, ']')
		if end < 2 {
			return false
		}
		port = u.host[end+1:]
		if port != "" && port[0] != ':' {
			return false
		}
		u.host = u.host[:end+1]
		port = strings.TrimPrefix(port, ":")
	default:
		var found bool
		if u.host, port, found = strings.Cut(u.host, ":"); !found {
			return true
		}
	}
	if port == "" {
		return true
	}
	n, err := strconv.Atoi(port)
	return err == nil && n >= -1
}

// withoutDots resolves "/./" and "/../" as URLStreamHandler does.
func withoutDots(p string) string {
	for {
		k := strings.Index(p, "/./")
		if k < 0 {
			break
		}
		p = p[:k] + p[k+2:]
	}
	for from := 0; ; {
		k := strings.Index(p[from:], "/../")
		if k < 0 {
			break
		}
		k += from
		before := strings.LastIndexByte(p[:k], '/')
		if k > 0 && before >= 0 && strings.Index(p[before:], "/../") != 0 {
			p = p[:before] + p[k+3:]
			from = 0
			continue
		}
		from = k + 3
	}
	for strings.HasSuffix(p, "/..") {
		k := len(p) - 3
		before := strings.LastIndexByte(p[:k], '/')
		if before < 0 {
			break
		}
		p = p[:before+1]
	}
	if strings.HasPrefix(p, "./") && len(p) > 2 {
		p = p[2:]
	}
	if strings.HasSuffix(p, "/.") {
		p = p[:len(p)-1]
	}
	return p
}

// part returns a part by its name in parse_url; false is NULL.
func (u *javaURL) part(name string) (string, bool) {
	switch name {
	case "HOST":
		return u.host, true
	case "PATH":
		return u.path, true
	case "QUERY":
		return u.query, u.hasQuery
	case "REF":
		return u.ref, u.hasRef
	case "PROTOCOL":
		return u.protocol, true
	case "FILE":
		if u.hasQuery {
			return u.path + "?" + u.query, true
		}
		return u.path, true
	case "AUTHORITY":
		return u.authority, u.hasAuthority
	case "USERINFO":
		return u.userInfo, u.hasUserInfo
	}
	return "", false
}

// tuplePart is part with QUERY:name.
func (u *javaURL) tuplePart(name string) (string, bool) {
	if key, ok := strings.CutPrefix(name, "QUERY:"); ok {
		return queryValue(u.query, key)
	}
	return u.part(name)
}

// queryValue returns the value of the first name=value of a query. Hive looks for
// it with the regular expression (&|^)name=([^&]*).
func queryValue(query, name string) (string, bool) {
	for pair := range strings.SplitSeq(query, "&") {
		if v, ok := strings.CutPrefix(pair, name+"="); ok {
			return v, true
		}
	}
	return "", false
}
