// Package words is what people read on the dashboard: numbers, times, the one
// badge of a lane, and the sentences that say what happens, what it costs, when it
// ends and what to do. It gets what the API answers and the time, and gives text.
//
// It knows no HTML, store, clock or log, and it decides nothing: a word for a
// value that it does not know is that value.
package words

// None stands for a value that there is not.
const None = "–"
