// net/http in a retry loop, as services write it: client URL RETRIES
package main

import (
	"fmt"
	"net/http"
	"os"
	"strconv"
	"time"
)

func get(client *http.Client, url string) error {
	answer, err := client.Get(url)
	if err != nil {
		return err
	}
	answer.Body.Close()
	if answer.StatusCode == 429 || answer.StatusCode >= 500 {
		return fmt.Errorf("status %d", answer.StatusCode)
	}
	return nil
}

func main() {
	url := os.Args[1]
	retries, err := strconv.Atoi(os.Args[2])
	if err != nil {
		panic(err)
	}
	client := &http.Client{Timeout: 10 * time.Second}
	delay := 200 * time.Millisecond
	for try := 0; ; try++ {
		err = get(client, url)
		if err == nil {
			return
		}
		if try == retries {
			fmt.Fprintln(os.Stderr, "go:", err)
			os.Exit(1)
		}
		time.Sleep(delay)
		delay *= 2
	}
}
