package hints

// What the codec is tested through.
var (
	Encode = encode
	Decode = decode
)
