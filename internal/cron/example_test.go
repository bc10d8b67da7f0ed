package cron_test

import (
	"errors"
	"fmt"
	"time"

	"skein.dev/skein/internal/cron"
)

func Example() {
	s, err := cron.Parse("30 2 * * *", cron.Options{Zone: "Europe/Berlin"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s.Describe())
	at := time.Date(2027, 3, 27, 0, 0, 0, 0, time.UTC)
	for range 3 {
		at, _ = s.Next(at)
		fmt.Println(at.Format(time.RFC3339))
	}
	// Output:
	// at 02:30 every day, Europe/Berlin
	// 2027-03-27T02:30:00+01:00
	// 2027-03-28T03:00:00+02:00
	// 2027-03-29T02:30:00+02:00
}

func ExampleParse_impossible() {
	_, err := cron.Parse("0 0 31 4,6 *", cron.Options{})
	fmt.Println(errors.Is(err, cron.ErrImpossible))
	fmt.Println(err)
	// Output:
	// true
	// "0 0 31 4,6 *" at 5: day of month: April and June never have a 31st; change the day, the month or the year
}

func ExampleSchedule_On() {
	holidays, err := cron.Days("12-25", "12-26", "sat/sun")
	if err != nil {
		fmt.Println(err)
		return
	}
	six, err := cron.Daily([]cron.Clock{{Hour: 6}}, cron.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	at, _ := six.On(nil, holidays).Next(time.Date(2028, 12, 22, 12, 0, 0, 0, time.UTC))
	fmt.Println(at.Format("Monday 2 January"))
	// Output: Wednesday 27 December
}
