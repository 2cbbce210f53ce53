package segment

import (
	"container/list"
	"sync"
)

// Cache keeps decoded dictionaries of open segments, the least recently used
// ones going first, and lends out the buffers of scans. A nil Cache keeps
// nothing. Safe for concurrent use.
type Cache struct {
	mu      sync.Mutex
	most    int64
	size    int64
	recent  list.List // of *cached, the latest used first
	entries map[cacheKey]*list.Element

	buffers sync.Pool // of *buffers
}

// cacheKey names a column chunk.
type cacheKey struct {
	r           *Reader
	group, leaf int
}

type cached struct {
	key  cacheKey
	dict *dictionary
	size int64
}

// NewCache returns a cache of at most so many bytes of dictionaries.
func NewCache(bytes int64) *Cache {
	return &Cache{most: bytes, entries: map[cacheKey]*list.Element{}}
}

// Bytes returns about how much memory the dictionaries in the cache take.
func (c *Cache) Bytes() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.size
}

// dictionary returns a chunk's dictionary, nil if it isn't there.
func (c *Cache) dictionary(key cacheKey) *dictionary {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[key]
	if e == nil {
		return nil
	}
	c.recent.MoveToFront(e)
	return e.Value.(*cached).dict
}

// add keeps a chunk's dictionary.
func (c *Cache) add(key cacheKey, d *dictionary) {
	if c == nil {
		return
	}
	x := &cached{key, d, d.size()}
	if x.size > c.most/4 {
		return // it would push out too many others
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries[key] != nil || key.r.forgotten {
		return
	}
	c.entries[key] = c.recent.PushFront(x)
	c.size += x.size
	for c.size > c.most {
		c.remove(c.recent.Back())
	}
}

func (c *Cache) remove(e *list.Element) {
	x := c.recent.Remove(e).(*cached)
	delete(c.entries, x.key)
	c.size -= x.size
}

// forget drops what belongs to a reader that is closed, for good.
func (c *Cache) forget(r *Reader) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	r.forgotten = true
	for e := c.recent.Front(); e != nil; {
		next := e.Next()
		if e.Value.(*cached).key.r == r {
			c.remove(e)
		}
		e = next
	}
}

// buffers are what a chunkReader reads and decodes into.
type buffers struct {
	window []byte   // of the file
	values []uint64 // of pages whose values aren't kept; 8-byte aligned
	codes  []int32
	spread []int32 // codes with the nulls between
	ends   []int32 // of text values that aren't kept
	text   []byte
}

// borrow returns buffers, maybe used ones.
func (c *Cache) borrow() *buffers {
	if c != nil {
		if b, ok := c.buffers.Get().(*buffers); ok {
			return b
		}
	}
	return &buffers{}
}

// giveBack takes buffers that nobody refers to any more.
func (c *Cache) giveBack(b *buffers) {
	if c != nil && b != nil {
		c.buffers.Put(b)
	}
}
