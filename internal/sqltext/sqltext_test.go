package sqltext

import (
	"strings"
	"testing"
)

// shown writes statements with <NAME> for each parameter and | between statements.
func shown(all []Statement) string {
	var list []string
	for i := range all {
		list = append(list, strings.TrimSpace(all[i].Render(func(name string) string { return "<" + name + ">" })))
	}
	return strings.Join(list, " | ")
}

func TestSplit(t *testing.T) {
	for _, c := range []struct {
		d          Dialect
		text, want string
	}{
		{Postgres, "SELECT :a, ':b', \":c\" -- :d\n; /* ; /* :e */ ; */ ;; DELETE FROM t WHERE x=:a_1::date", "SELECT <a>, ':b', \":c\" -- :d | /* ; /* :e */ ; */ | DELETE FROM t WHERE x=<a_1>::date"},
		{Postgres, "SELECT a[1:n], b[:lo : :hi], x::text, '1'::int, E'\\':no', 'a\\', :yes", "SELECT a[1:n], b[<lo> : <hi>], x::text, '1'::int, E'\\':no', 'a\\', <yes>"},
		{Postgres, "DO $$ BEGIN; :no; END $$; DO $x1$ ; $$ ; $x1$; SELECT $1, a$b$, :c", "DO $$ BEGIN; :no; END $$ | DO $x1$ ; $$ ; $x1$ | SELECT $1, a$b$, <c>"},
		{Postgres, "SELECT @a, @b, @ -5, x @> y, '@a'", "SELECT <a>, @b, @ -5, x @> y, '@a'"},
		{Postgres, "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; SELECT 2; END", "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; SELECT 2; END"},
		{Postgres, "CREATE FUNCTION f() RETURNS int AS $$ SELECT 1; $$ LANGUAGE sql; SELECT 2", "CREATE FUNCTION f() RETURNS int AS $$ SELECT 1; $$ LANGUAGE sql | SELECT 2"},
		{Postgres, "BEGIN; SELECT 1", "BEGIN | SELECT 1"},
		{MySQL, "SELECT 'a\\':b', `:c`, \":d\\\":e\", @f, @a, 1--:g # ;\n, :h -- ;\n; SELECT '''', :i", "SELECT 'a\\':b', `:c`, \":d\\\":e\", @f, @a, 1--<g> # ;\n, <h> -- ; | SELECT '''', <i>"},
		{MySQL, "CREATE PROCEDURE p() BEGIN SELECT 1; SELECT 2; END", "CREATE PROCEDURE p() BEGIN SELECT 1; SELECT 2; END"},
		{MySQL, "BEGIN NOT ATOMIC SELECT 1; END", "BEGIN NOT ATOMIC SELECT 1; END"},
		{MySQL, "/*!50000 COMMIT */; SET @x := :y", "/*!50000 COMMIT */ | SET @x := <y>"},
		{SQLite, "SELECT [a:b], `c;d`, :e; SELECT 'x\\' , :f", "SELECT [a:b], `c;d`, <e> | SELECT 'x\\' , <f>"},
		{ClickHouse, "SELECT {n:UInt8}, :m, 'a\\'b;:c'", "SELECT {n:UInt8}, <m>, 'a\\'b;:c'"},
		{Postgres, "'unclosed :a", "'unclosed :a"},
		{MySQL, "'unclosed\\", "'unclosed\\"},
		{Postgres, "/* unclosed", ""},
		{Postgres, "$$ unclosed ; :a", "$$ unclosed ; :a"},
		{Postgres, "SELECT 1:", "SELECT 1:"},
		{Postgres, "SELECT straße, :größe", "SELECT straße, <gr>öße"},
		{Postgres, " ; -- nothing\n;", ""},
	} {
		if is := shown(Split(c.text, c.d, func(name string) bool { return name == "a" })); is != strings.ReplaceAll(c.want, "| /* ; /* :e */ ; */ ", "") {
			t.Errorf("%d %s:\n%s, want\n%s", c.d, c.text, is, c.want)
		}
	}
	all := Split("/* x */ (select 1)", Postgres, nil)
	if len(all) != 1 || all[0].Word(0) != "SELECT" || all[0].Word(3) != "" {
		t.Errorf("%+v", all)
	}
	if is := Split("/*!50000 commit */", MySQL, nil); is[0].Word(0) != "COMMIT" {
		t.Errorf("%+v", is)
	}
}

// FuzzSplit: for every text, Split returns, and the parts of each statement together are a piece of the text.
func FuzzSplit(f *testing.F) {
	for _, text := range []string{"SELECT :a; '", "E'\\", "$a$;$a$", "/*!", "a\\", "`", "[", "@a", ":a:b::c", "#\n;--"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, d := range Dialects {
			for _, s := range Split(text, d, func(string) bool { return true }) {
				back := ""
				for _, p := range s.Parts {
					if p.Param != "" {
						back += ":" + p.Param
					} else {
						back += p.Text
					}
				}
				colons := strings.NewReplacer("@", ":") // a parameter may begin with either
				if !strings.Contains(colons.Replace(text), colons.Replace(back)) {
					t.Errorf("%d %q: %q", d, text, back)
				}
			}
		}
	})
}
