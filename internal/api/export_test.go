package api

// ValidJSON is validJSON for tests.
var ValidJSON = validJSON

// Members returns the values of the members of an object by name; ok is false
// when obj is anything but one valid object.
func Members(obj []byte) (values map[string][]byte, ok bool) {
	list, ok := appendMembers(nil, obj)
	values = make(map[string][]byte, len(list))
	for _, m := range list {
		values[m.name] = m.value
	}
	return values, ok
}
