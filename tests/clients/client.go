// net/http in a retry loop, as services write it; command line and log as of operations.py.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"
)

type line struct {
	Op      int     `json:"op"`
	Status  int     `json:"status,omitempty"`
	Error   string  `json:"error,omitempty"`
	Tries   int     `json:"tries"`
	Seconds float64 `json:"seconds"`
}

func get(client *http.Client, url string) (int, error) {
	answer, err := client.Get(url)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		return 0, err
	}
	if answer.StatusCode == 429 || answer.StatusCode >= 500 {
		return answer.StatusCode, fmt.Errorf("status %d", answer.StatusCode)
	}
	return answer.StatusCode, nil
}

func number(text string) float64 {
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic(err)
	}
	return value
}

func seconds(text string) time.Duration {
	return time.Duration(number(text) * float64(time.Second))
}

func main() {
	base, operations, retries := os.Args[1], int(number(os.Args[2])), int(number(os.Args[3]))
	client := &http.Client{Timeout: seconds(os.Args[4]), Transport: &http.Transport{}}
	log := json.NewEncoder(os.Stdout)
	for op := 0; op < operations; op++ {
		if op > 0 {
			time.Sleep(seconds(os.Args[5]))
		}
		url := base + "/hot"
		if os.Args[6] == "distinct" {
			url = fmt.Sprintf("%s/op/%d", base, op)
		}
		ended := line{Op: op}
		began := time.Now()
		delay := 20 * time.Millisecond
		for {
			ended.Tries++
			status, err := get(client, url)
			if ended.Status = status; err == nil {
				break
			}
			if ended.Tries > retries {
				ended.Error = err.Error()
				break
			}
			time.Sleep(delay)
			delay *= 2
		}
		ended.Seconds = time.Since(began).Seconds()
		log.Encode(ended)
	}
}
