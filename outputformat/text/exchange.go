package text

import "errors"

// exchangeByHand swaps two directories in three renames: after the first, until
// the second, b is not there.
func exchangeByHand(a, b string, rename func(from, to string) error) error {
	aside := a + ".old"
	if err := rename(b, aside); err != nil {
		return err
	}
	if err := rename(a, b); err != nil {
		return errors.Join(err, rename(aside, b))
	}
	return rename(aside, a)
}
