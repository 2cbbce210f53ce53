package schema

import (
	"math"
	"strconv"
)

// AppendDouble appends f as Java's Double.toString writes it, which is what
// Hive prints: "1.0", "1.0E10", "NaN", "-Infinity". Digits are the shortest
// that read back as f, at least two, the nearest to f among those (the rule of
// JDK 19 and later; older JDKs sometimes print one digit more).
func AppendDouble(dst []byte, f float64) []byte { return appendJavaFloat(dst, f, 64) }

// AppendFloat is AppendDouble for float (Java's Float.toString).
func AppendFloat(dst []byte, f float32) []byte { return appendJavaFloat(dst, float64(f), 32) }

func appendJavaFloat(dst []byte, f float64, bits int) []byte {
	switch {
	case math.IsNaN(f):
		return append(dst, "NaN"...)
	case math.IsInf(f, 1):
		return append(dst, "Infinity"...)
	case math.IsInf(f, -1):
		return append(dst, "-Infinity"...)
	case f == 0:
		if math.Signbit(f) {
			return append(dst, "-0.0"...)
		}
		return append(dst, "0.0"...)
	}
	if f < 0 {
		dst, f = append(dst, '-'), -f
	}
	if f >= 1e-3 && f < 1e7 {
		start := len(dst)
		dst = strconv.AppendFloat(dst, f, 'f', -1, bits)
		for _, c := range dst[start:] {
			if c == '.' {
				return dst
			}
		}
		return append(dst, '.', '0')
	}
	var room [32]byte
	s := strconv.AppendFloat(room[:0], f, 'e', -1, bits)
	if s[1] == 'e' { // one digit: Java wants the nearest of two digits
		s = strconv.AppendFloat(room[:0], f, 'e', 1, bits)
	}
	e := len(s) - 1
	for s[e] != 'e' {
		e--
	}
	dst = append(dst, s[:e]...)
	dst = append(dst, 'E')
	if s[e+1] == '-' {
		dst = append(dst, '-')
	}
	digits := s[e+2:] // Go writes at least two
	for len(digits) > 1 && digits[0] == '0' {
		digits = digits[1:]
	}
	return append(dst, digits...)
}

// pow10 are the powers of ten that float64 holds exactly.
var pow10 = [...]float64{1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11,
	1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22}

// parseFloat reads s as Java's Double.parseDouble (bits = 64) or
// Float.parseFloat (32): blanks around, a suffix d or f, "NaN" and "Infinity"
// are fine. Numbers of up to 15 digits and a small exponent are exact in
// one float64 operation (Clinger's fast path); the rest is left to strconv.
func parseFloat(s []byte, bits int) (float64, bool) {
	if f, ok := parseShortFloat(s, bits); ok {
		return f, true
	}
	return parseLongFloat(s, bits)
}

func parseShortFloat(s []byte, bits int) (float64, bool) {
	i, n := 0, len(s)
	if n == 0 || n > 20 {
		return 0, false
	}
	negative := s[0] == '-'
	if negative || s[0] == '+' {
		i = 1
	}
	var mantissa uint64
	digits, fraction, point := 0, 0, false
	for ; i < n; i++ {
		c := s[i] - '0'
		if c <= 9 {
			mantissa = mantissa*10 + uint64(c)
			digits++
			if point {
				fraction++
			}
		} else if s[i] == '.' && !point {
			point = true
		} else {
			return 0, false
		}
	}
	if digits == 0 || digits > 15 {
		return 0, false
	}
	if bits == 32 && (mantissa > 1<<24 || fraction > 10) {
		return 0, false // rounding twice could be wrong
	}
	f := float64(mantissa)
	if fraction > 0 {
		if bits == 32 {
			f = float64(float32(mantissa) / float32(pow10[fraction]))
		} else {
			f /= pow10[fraction]
		}
	}
	if negative {
		f = -f
	}
	return f, true
}

func parseLongFloat(s []byte, bits int) (float64, bool) {
	s = trimBlanks(s)
	if len(s) == 0 {
		return 0, false
	}
	sign, body := 1.0, s
	if s[0] == '-' || s[0] == '+' {
		if s[0] == '-' {
			sign = -1
		}
		body = s[1:]
	}
	switch string(body) {
	case "NaN":
		return math.NaN(), true
	case "Infinity":
		return math.Inf(int(sign)), true
	}
	hex := len(body) > 1 && body[0] == '0' && body[1]|0x20 == 'x'
	if len(body) > 1 {
		switch last := body[len(body)-1] | 0x20; {
		case last == 'd' || last == 'f':
			if !hex || hasExponent(body) {
				body = body[:len(body)-1]
			}
		}
	}
	// strconv also takes "inf", "nan" and "_"; Java doesn't.
	for _, c := range body {
		switch {
		case c >= '0' && c <= '9', c == '.', c == '-', c == '+', c|0x20 == 'e':
		case hex && (c|0x20 >= 'a' && c|0x20 <= 'f' || c|0x20 == 'x' || c|0x20 == 'p'):
		default:
			return 0, false
		}
	}
	if len(body) == 0 || body[0] == '+' || body[0] == '-' {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(body), bits)
	if err != nil && !math.IsInf(f, 0) { // out of range is Infinity, as in Java
		return 0, false
	}
	return sign * f, true
}

func hasExponent(s []byte) bool {
	for _, c := range s {
		if c|0x20 == 'p' {
			return true
		}
	}
	return false
}
