package main

import (
	"fmt"
	"strings"
)

// diffCellsMax bounds the table of a comparison; larger texts are shown as replaced.
const diffCellsMax = 16 << 20

// diff compares line by line, in the unified form; nothing if the texts are the same.
func diff(from, to labelled) []string {
	if from.text == to.text {
		return nil
	}
	a, b := lines(from.text), lines(to.text)
	var edits []string
	if len(a)*len(b) > diffCellsMax {
		for _, l := range a {
			edits = append(edits, "-"+l)
		}
		for _, l := range b {
			edits = append(edits, "+"+l)
		}
	} else {
		edits = edit(a, b)
	}
	return append([]string{"--- " + from.name, "+++ " + to.name}, hunks(edits)...)
}

func lines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// edit gives both texts interleaved by their longest common subsequence.
func edit(a, b []string) []string {
	common := make([][]int32, len(a)+1) // of the rests a[i:], b[j:]
	for i := range common {
		common[i] = make([]int32, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	var out []string
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			out = append(out, " "+a[i])
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && common[i+1][j] >= common[i][j+1]:
			out = append(out, "-"+a[i])
			i++
		default:
			out = append(out, "+"+b[j])
			j++
		}
	}
	return out
}

// hunks keeps three lines around what differs.
func hunks(edits []string) []string {
	const around = 3
	keep := make([]bool, len(edits))
	for i, e := range edits {
		if e[0] == ' ' {
			continue
		}
		for k := max(0, i-around); k <= min(len(edits)-1, i+around); k++ {
			keep[k] = true
		}
	}
	var out []string
	old, line := 1, 1
	for i, e := range edits {
		if keep[i] {
			if i == 0 || !keep[i-1] {
				out = append(out, fmt.Sprintf("@@ -%d +%d @@", old, line))
			}
			out = append(out, e)
		}
		if e[0] != '+' {
			old++
		}
		if e[0] != '-' {
			line++
		}
	}
	return out
}
