//! Compares the store's pattern matching with Lua's own: results and errors must be the same.

use mlua::{Lua, Variadic};
use steadlock_store::{Limits, Reply, ServerTime, Store};

/// A script that calls one of the functions, and shows all its results.
const CALL: &str = "
local function show(...)
  local shown = {}
  for i = 1, select('#', ...) do
    local value = (select(i, ...))
    shown[i] = type(value) .. ' ' .. tostring(value)
  end
  return table.concat(shown, '|')
end
local how, s, p, init = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local with = ARGV[5]
if how == 'find' then return show(pcall(string.find, s, p, init)) end
if how == 'plain' then return show(pcall(string.find, s, p, init, true)) end
if how == 'match' then return show(pcall(string.match, s, p, init)) end
if how == 'gsub' then return show(pcall(string.gsub, s, p, with)) end
if how == 'gsub_some' then return show(pcall(string.gsub, s, p, with, init)) end
if how == 'gsub_table' then return show(pcall(string.gsub, s, p, {a = 'A', b = false, ab = 7, [''] = '-', [1] = 'first'})) end
if how == 'gsub_function' then
  return show(pcall(string.gsub, s, p, function(...)
    if select('#', ...) > 1 then return show(...) end
    local found = ...
    if found == 'a' then return nil end
    if found == 'b' then return {} end
    return '<' .. tostring(found) .. '>'
  end))
end
return show(pcall(function()
  local all = {}
  for a, b, c in string.gmatch(s, p) do
    all[#all + 1] = show(a, b, c)
    if #all > 50 then break end
  end
  return table.concat(all, ';')
end))";

const HOW: &[&str] = &[
    "find",
    "plain",
    "match",
    "gsub",
    "gsub_some",
    "gsub_table",
    "gsub_function",
    "gmatch",
];

struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % bound
    }

    fn joined(&mut self, from: &[&'static [u8]], most: usize) -> Vec<u8> {
        let count = self.below(most + 1);
        (0..count).flat_map(|_| from[self.below(from.len())].to_vec()).collect()
    }
}

#[test]
fn patterns_match_as_in_lua() {
    const CASES: usize = 30_000;
    let items: &[&[u8]] = &[
        b"a",
        b"b",
        b".",
        b"%a",
        b"%d",
        b"%s",
        b"%w",
        b"%W",
        b"%u",
        b"%l",
        b"%p",
        b"%c",
        b"%x",
        b"%z",
        b"[ab]",
        b"[^a]",
        b"[a-c]",
        b"[%a_]",
        b"[]]",
        b"[^]]",
        b"[a-]",
        b"[%]]",
        b"(",
        b")",
        b"()",
        b"(a)",
        b"(.-)",
        b"(.*)",
        b"%b()",
        b"%bab",
        b"%f[a]",
        b"%f[%W]",
        b"%1",
        b"%2",
        b"^",
        b"$",
        b"*",
        b"+",
        b"-",
        b"?",
        b"%%",
        b"%",
        b"[",
        b"\0",
        b"%.",
        b"[^%s]",
        b"[%z]",
        b"\xE4",
        b"[\x80-\xFF]",
        b"%f",
        b"%b",
        b"%bx",
        b"1",
        b" ",
    ];
    let letters: &[&[u8]] = &[
        b"a", b"b", b"c", b"ab", b"A", b"1", b" ", b"(", b")", b"]", b"-", b"\0", b"\n", b"\xE4", b"%", b".",
    ];
    let put_in: &[&[u8]] = &[b"x", b"%0", b"%1", b"%2", b"%%", b"%", b"", b"%a"];
    let lua = Lua::new();
    let theirs = lua
        .load(format!("local ARGV = {{...}}\n{CALL}"))
        .into_function()
        .unwrap();
    let mut store = Store::with_limits(Limits::SERVED);
    let mut draw = Draw(2_024);
    let mut errors = 0;
    for case in 0..CASES {
        let how = HOW[draw.below(HOW.len())];
        let subject = draw.joined(letters, 12);
        let pattern = draw.joined(items, 6);
        let init = [1_i32, 0, -1, 2, 5, -3, 100, -100][draw.below(8)].to_string();
        let replacement = draw.joined(put_in, 3);
        let words = [how.as_bytes(), &subject, &pattern, init.as_bytes(), &replacement];
        let arguments: Variadic<mlua::LuaString> = words.iter().map(|word| lua.create_string(word).unwrap()).collect();
        let expected: mlua::LuaString = theirs.call(arguments).unwrap();
        let expected = without_place(&expected.as_bytes());
        let mut request: Vec<&[u8]> = vec![b"EVAL", CALL.as_bytes(), b"0"];
        request.extend(words);
        let reply = store.execute(&request, ServerTime::from_micros(1));
        let Reply::Bytes(found) = reply else {
            panic!("case {case}: {how} of {words:?} gives {reply:?}");
        };
        let found = without_place(&found);
        errors += usize::from(expected.starts_with("boolean false"));
        assert_eq!(
            found,
            expected,
            "case {case}: {how} of {:?}",
            words.map(String::from_utf8_lossy)
        );
    }
    assert!((CASES / 20..CASES * 4 / 5).contains(&errors), "{errors} errors");
}

/// Removes the place of an error. Lua reports the place only if Lua code called the function; the store always reports
/// it.
fn without_place(shown: &[u8]) -> String {
    let text = String::from_utf8_lossy(shown).into_owned();
    let Some((before, error)) = text.split_once("false|string ") else {
        return text;
    };
    let error = error.rsplit_once(": ").map_or(error, |(_, error)| error);
    format!("{before}false|string {error}")
}
