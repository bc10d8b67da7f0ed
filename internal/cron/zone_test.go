package cron

import (
	"archive/zip"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestZoneNames: the list of names for suggestions, from which the oracle takes its zones, equals the list of
// the tool chain.
func TestZoneNames(t *testing.T) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	z, err := zip.OpenReader(filepath.Join(strings.TrimSpace(string(root)), "lib", "time", "zoneinfo.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	known := strings.Fields(zoneNames)
	if !slices.IsSorted(known) {
		t.Error("the list is not sorted")
	}
	for _, f := range z.File {
		if strings.HasSuffix(f.Name, "/") || f.Name == "Factory" { // these names are no zones
			continue
		}
		if _, ok := slices.BinarySearch(known, f.Name); !ok {
			t.Errorf("%s is missing in the list", f.Name)
		}
	}
}

func TestSuggestions(t *testing.T) {
	for name, want := range map[string]string{
		"europe/berlin":     "Europe/Berlin",
		"Berlin":            "Europe/Berlin",
		"Europe/Berln":      "Europe/Berlin",
		"America/New York":  "America/New_York",
		"new york":          "America/New_York",
		"Asia/Calcuta":      "Asia/Calcutta",
		"PST":               "such as Europe/Berlin",
		"Middle/Earth_Area": "such as Europe/Berlin",
		"Local":             "machines differ",
		"+02:00":            "Etc/GMT-2",
	} {
		if _, err := LoadZone(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCivil compares the calendar arithmetic with package time for every day from 1960 to 2210.
func TestCivil(t *testing.T) {
	for d := time.Date(1960, 1, 1, 0, 0, 0, 0, time.UTC); d.Year() < 2210; d = d.AddDate(0, 0, 1) {
		n, _ := split(d.Unix())
		y, m, day := civil(n)
		if y != d.Year() || m != int(d.Month()) || day != d.Day() || daysFrom(y, m, day) != n || weekday(n) != int(d.Weekday()) {
			t.Fatalf("%s is day %d, %d-%d-%d", d, n, y, m, day)
		}
		if last := d.AddDate(0, 1, -d.Day()).Day(); d.Day() == 1 && daysIn(y, m) != last {
			t.Fatalf("%s has %d days, not %d", d, last, daysIn(y, m))
		}
	}
	if daysFrom(2200, 1, 1) != dayMax {
		t.Errorf("2200-01-01 is day %d", daysFrom(2200, 1, 1))
	}
}

// TestLoadedZone compares schedules that were made with a loaded zone with those that were made with its
// name.
func TestLoadedZone(t *testing.T) {
	berlin, err := LoadZone("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"15 2 * * *", "CRON_TZ=Europe/Berlin 15 2 * * *", "@daily"} {
		named, loaded := parse(t, text, Options{Zone: "Europe/Berlin"}), parse(t, text, Options{Location: berlin})
		if named.String() != loaded.String() || loaded.Zone() != berlin {
			t.Errorf("%s: by name %s, loaded %s in %p, want %p", text, named, loaded, loaded.Zone(), berlin)
		}
	}
	daily, err := Daily([]Clock{{Hour: 6}}, Options{Location: berlin, Zone: "is not looked at"})
	if err != nil || daily.Zone() != berlin {
		t.Error(daily, err)
	}
	if _, err := Parse("CRON_TZ=Asia/Tokyo 15 2 * * *", Options{Location: berlin}); err == nil || !strings.Contains(err.Error(), "name the zone in one of the two places") {
		t.Errorf("a text in another zone: %v", err)
	}
	if _, err := Parse("15 2 * * *", Options{Location: time.Local}); err == nil {
		t.Error("the zone of the machine is taken")
	}
}
