package kafka

import "github.com/segmentio/kafka-go/compress"

// compress returns the encoded batch with its records compressed as configured, or the batch itself if compression does
// not make it smaller. It takes ownership of b. The result still has to be sealed.
func (p *Publisher) compress(b []byte) []byte {
	codec := p.config.Compression.Codec()
	if codec == nil {
		return b
	}
	packed := &appender{append(p.buffer(), b[:recordsAt]...)}
	w := codec.NewWriter(packed)
	_, err := w.Write(b[recordsAt:])
	if failed := w.Close(); err != nil || failed != nil || len(packed.bytes) >= len(b) {
		p.recycle(packed.bytes)
		return b
	}
	packed.bytes[attributesAt+1] |= byte(codec.Code())
	p.recycle(b)
	return packed.bytes
}

// An appender is an io.Writer that appends to a slice.
type appender struct{ bytes []byte }

func (a *appender) Write(b []byte) (int, error) {
	a.bytes = append(a.bytes, b...)
	return len(b), nil
}

// Compression returns the codec with the given name: none, gzip, snappy, lz4 or zstd.
func Compression(name string) (codec compress.Compression, err error) {
	err = codec.UnmarshalText([]byte(name))
	return codec, err
}
