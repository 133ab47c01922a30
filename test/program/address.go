package program

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"time"
)

// claims are held until the process ends: nothing else keeps them open.
var (
	claimsMu sync.Mutex
	claims   []net.PacketConn
)

// Address is an address for a server that no other test is given while this
// process lives, not even while the server is being restarted. It is claimed from
// the tests of all processes by the UDP port of the same number, which no server
// wants. It lies below the ports that Linux gives to connections: one of these could
// otherwise take the place of a server that is away for a moment, and keep it.
func Address() string {
	drawn := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), uint64(os.Getpid())))
	for range 1000 {
		address := fmt.Sprintf("127.0.0.1:%d", 18000+drawn.IntN(14000))
		claim, err := net.ListenPacket("udp", address) //nolint:noctx // claims a port, asks nobody
		if err != nil {
			continue
		}
		free, err := net.Listen("tcp", address) //nolint:noctx // as above
		if err != nil {
			_ = claim.Close()
			continue
		}
		_ = free.Close()
		claimsMu.Lock()
		claims = append(claims, claim)
		claimsMu.Unlock()
		return address
	}
	panic("of 1000 ports none was free")
}
