package kafka

import "bytes"

// compress returns the encoded batch with its records compressed as configured, or the batch itself if compression does
// not make it smaller. It takes ownership of b. The result still has to be sealed. Brokers store the batch as it is,
// and their limits (max.message.bytes) count what is sent.
func (p *Publisher) compress(b []byte) []byte {
	codec := p.config.Compression.Codec()
	if codec == nil {
		return b
	}
	buffer := bytes.NewBuffer(append(p.buffer(), b[:recordsAt]...))
	w := codec.NewWriter(buffer)
	_, err := w.Write(b[recordsAt:])
	failed, packed := w.Close(), buffer.Bytes()
	if err != nil || failed != nil || len(packed) >= len(b) {
		p.recycle(packed)
		return b
	}
	packed[attributesAt+1] |= byte(codec.Code())
	p.recycle(b)
	return packed
}
