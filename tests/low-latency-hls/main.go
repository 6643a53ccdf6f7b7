// A live origin of low-latency HLS for tests: gohlslib, the packager that MediaMTX uses, for pictures that ffmpeg sends as MPEG-TS on standard
// input.
//
// Standard output has its address, and then the target of each GET request, a line each. It serves the files in the
// folder that its argument names, too, for pages that play the stream. It ends with its input.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/bluenviron/gohlslib/v2"
	"github.com/bluenviron/gohlslib/v2/pkg/codecs"
	"github.com/bluenviron/mediacommon/v2/pkg/formats/mpegts"
	tscodecs "github.com/bluenviron/mediacommon/v2/pkg/formats/mpegts/codecs"
)

const (
	// Ticks of MPEG-TS in a second.
	clockRate = 90000
	// As many segments as a test makes, so that it can compare them afterwards.
	segmentCount = 60
)

// The targets of GET requests go to standard output before they are answered.
type log struct {
	mutex   sync.Mutex
	handler http.Handler
}

func (l *log) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		l.mutex.Lock()
		fmt.Println(r.URL.RequestURI())
		l.mutex.Unlock()
	}
	l.handler.ServeHTTP(w, r)
}

// Files in the folder if there is one of the name, and the stream otherwise.
func handler(muxer *gohlslib.Muxer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(os.Args) > 1 {
			path := filepath.Join(os.Args[1], filepath.Base(r.URL.Path))
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
				http.ServeFile(w, r, path)
				return
			}
		}
		muxer.Handle(w, r)
	})
}

func videoOf(input *mpegts.Reader) (*mpegts.Track, error) {
	for _, track := range input.Tracks() {
		if _, ok := track.Codec.(*tscodecs.H264); ok {
			return track, nil
		}
	}
	return nil, errors.New("there is no H.264 in the input")
}

func run() error {
	input := &mpegts.Reader{R: bufio.NewReader(os.Stdin)}
	if err := input.Initialize(); err != nil {
		return err
	}
	source, err := videoOf(input)
	if err != nil {
		return err
	}
	video := &gohlslib.Track{Codec: &codecs.H264{}, ClockRate: clockRate}
	muxer := &gohlslib.Muxer{
		Tracks:             []*gohlslib.Track{video},
		Variant:            gohlslib.MuxerVariantLowLatency,
		SegmentCount:       segmentCount,
		SegmentMinDuration: time.Second,
		PartMinDuration:    200 * time.Millisecond,
	}
	if err := muxer.Start(); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf("http://%s\n", listener.Addr())
	go http.Serve(listener, &log{handler: handler(muxer)})
	var began time.Time
	input.OnDataH264(source, func(pts int64, _ int64, unit [][]byte) error {
		played := time.Duration(pts) * time.Second / clockRate
		if began.IsZero() {
			began = time.Now().Add(-played)
		}
		return muxer.WriteH264(video, began.Add(played), pts, unit)
	})
	for {
		if err := input.Read(); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
	}
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
