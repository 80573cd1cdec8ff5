// A wallet's part of BIP157, played by the library that Lightning wallets use for it: fetches
// headers and filters from one node and finds by them what an output script has received and spent.
//
// usage: bip157 PEER FOLDER SCRIPT SECONDS
//
//	PEER     address and port of a node on regtest; nobody else is asked
//	FOLDER   where headers and filters go; made by the caller, empty
//	SCRIPT   the output script, in hex
//	SECONDS  after which it gives up, with exit status 1
//
// Writes one line of JSON: height (of the filters' headers), matches (heights of the blocks whose
// filter has the script), balance (of the script, in satoshis).
// Errors: one sentence to standard error, exit status 1; wrong arguments: 2.
package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/btcsuite/btcd/btcutil/gcs/builder"
	"github.com/btcsuite/btcd/chaincfg"
	"github.com/btcsuite/btcd/wire"
	"github.com/btcsuite/btcwallet/walletdb"
	_ "github.com/btcsuite/btcwallet/walletdb/bdb"
	"github.com/lightninglabs/neutrino"
)

// answer is what the program writes.
type answer struct {
	Height  int32   `json:"height"`
	Matches []int32 `json:"matches"`
	Balance int64   `json:"balance"`
}

// asked is what the arguments say.
type asked struct {
	peer, folder string
	script       []byte
	end          time.Time
}

// parse reads the arguments.
func parse(words []string) (asked, error) {
	if len(words) != 4 {
		return asked{}, fmt.Errorf("usage: bip157 PEER FOLDER SCRIPT SECONDS")
	}
	script, err := hex.DecodeString(words[2])
	if err != nil || len(script) == 0 {
		return asked{}, fmt.Errorf("%q is no script in hex: %v", words[2], err)
	}
	seconds, err := strconv.ParseUint(words[3], 10, 16)
	if err != nil {
		return asked{}, fmt.Errorf("%q is no number of seconds: %w", words[3], err)
	}
	end := time.Now().Add(time.Duration(seconds) * time.Second)
	return asked{peer: words[0], folder: words[1], script: script, end: end}, nil
}

// wait returns when the service has the headers and filters that its peer has.
func wait(service *neutrino.ChainService, end time.Time) error {
	for !service.IsCurrent() {
		if time.Now().After(end) {
			best, err := service.BestBlock()
			return fmt.Errorf("no headers and filters in time: %v, %v, %d peers",
				best, err, service.ConnectedCount())
		}
		time.Sleep(100 * time.Millisecond)
	}
	return nil
}

// walk asks the filter of each block, and fetches those blocks that it matches.
func walk(service *neutrino.ChainService, script []byte) (answer, error) {
	best, err := service.BestBlock()
	if err != nil {
		return answer{}, fmt.Errorf("no best block: %w", err)
	}
	found := answer{Height: best.Height, Matches: []int32{}}
	coins := map[wire.OutPoint]int64{}
	for height := int32(1); height <= best.Height; height++ {
		hash, err := service.GetBlockHash(int64(height))
		if err != nil {
			return answer{}, fmt.Errorf("no hash of block %d: %w", height, err)
		}
		filter, err := service.GetCFilter(*hash, wire.GCSFilterRegular)
		if err != nil {
			return answer{}, fmt.Errorf("no filter of block %d: %w", height, err)
		}
		matches, err := filter.Match(builder.DeriveKey(hash), script)
		if err != nil {
			return answer{}, fmt.Errorf("the filter of block %d is unreadable: %w", height, err)
		}
		if !matches {
			continue
		}
		found.Matches = append(found.Matches, height)
		block, err := service.GetBlock(*hash)
		if err != nil {
			return answer{}, fmt.Errorf("no block %d: %w", height, err)
		}
		for _, tx := range block.Transactions() {
			for _, in := range tx.MsgTx().TxIn {
				delete(coins, in.PreviousOutPoint)
			}
			for i, out := range tx.MsgTx().TxOut {
				if bytes.Equal(out.PkScript, script) {
					coins[*wire.NewOutPoint(tx.Hash(), uint32(i))] = out.Value
				}
			}
		}
	}
	for _, value := range coins {
		found.Balance += value
	}
	return found, nil
}

// find waits for the node's headers and filters, and asks them for the script.
func find(what asked) (answer, error) {
	file := filepath.Join(what.folder, "headers.db")
	database, err := walletdb.Create("bdb", file, true, time.Minute)
	if err != nil {
		return answer{}, fmt.Errorf("no database in %s: %w", what.folder, err)
	}
	defer database.Close()
	service, err := neutrino.NewChainService(neutrino.Config{
		DataDir:      what.folder,
		Database:     database,
		ChainParams:  chaincfg.RegressionNetParams,
		ConnectPeers: []string{what.peer},
	})
	if err == nil {
		err = service.Start()
	}
	if err != nil {
		return answer{}, fmt.Errorf("the client does not start: %w", err)
	}
	defer service.Stop() //nolint:errcheck // the process ends
	if err := wait(service, what.end); err != nil {
		return answer{}, err
	}
	return walk(service, what.script)
}

func main() {
	what, err := parse(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	neutrino.MaxPeers = 1
	found, err := find(what)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		os.Exit(1)
	}
}
