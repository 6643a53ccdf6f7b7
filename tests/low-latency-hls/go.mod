module fullbore.example/low-latency-hls

go 1.24.0

require (
	github.com/bluenviron/gohlslib/v2 v2.2.5
	github.com/bluenviron/mediacommon/v2 v2.7.0
)

require (
	github.com/abema/go-mp4 v1.4.1 // indirect
	github.com/asticode/go-astikit v0.30.0 // indirect
	github.com/asticode/go-astits v1.14.0 // indirect
	github.com/google/uuid v1.3.0 // indirect
)
