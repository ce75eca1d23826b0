//! Takes out of the module what no statement of ours leads to.
//!
//! A linker keeps each function that another one names. SQLite's parser names the whole of SQL, and so the module would
//! carry compound SELECTs, triggers and ATTACH, although each of its statements is fixed text in this crate and none
//! asks for them. `unreached.txt` names the functions that only such statements come to. Each becomes a trap, and what
//! only they led to is not kept.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use wasmparser::{KnownCustom, Name, Parser, Payload, TypeRef};

/// Functions, one a line; what follows a `#` says what would come to them.
const UNREACHED: &str = include_str!("unreached.txt");

/// `unreachable`, after an empty list of locals; `nop`; `end`.
const TRAP: [u8; 2] = [0x00, 0x00];
const NOP: u8 = 0x01;
const END: u8 = 0x0b;

/// The module with a trap in the place of each function that `unreached.txt` names.
///
/// # Errors
///
/// A name that no function has: the list would say more than is done.
pub fn unreached(wasm: Vec<u8>) -> Result<Vec<u8>> {
    cut(wasm, UNREACHED)
}

fn cut(mut wasm: Vec<u8>, list: &str) -> Result<Vec<u8>> {
    let mut imported = 0;
    let mut bodies = Vec::new();
    let mut named = BTreeMap::new();
    for payload in Parser::new(0).parse_all(&wasm) {
        match payload? {
            Payload::ImportSection(imports) => {
                for import in imports.into_imports() {
                    if let TypeRef::Func(_) | TypeRef::FuncExact(_) = import?.ty {
                        imported += 1;
                    }
                }
            }
            Payload::CodeSectionEntry(body) => bodies.push(body.range()),
            Payload::CustomSection(section) => {
                if let KnownCustom::Name(names) = section.as_known() {
                    for names in names {
                        let Name::Function(names) = names? else {
                            continue;
                        };
                        for name in names {
                            let name = name?;
                            named.insert(name.name.to_owned(), name.index as usize);
                        }
                    }
                }
            }
            _ => {}
        }
    }
    let mut unknown = BTreeSet::new();
    let lines = list.lines().filter_map(|line| line.split('#').next());
    for name in lines.map(str::trim).filter(|name| !name.is_empty()) {
        let Some(&index) = named.get(name) else {
            unknown.insert(name);
            continue;
        };
        let body = index.checked_sub(imported).and_then(|at| bodies.get(at));
        let body = body.with_context(|| format!("{name} is imported"))?;
        let body = &mut wasm[body.clone()];
        if let [trap @ .., END] = body
            && trap.len() >= TRAP.len()
        {
            trap.fill(NOP);
            trap[..TRAP.len()].copy_from_slice(&TRAP);
        }
    }
    ensure!(
        unknown.is_empty(),
        "the module has no function {}: take it out of unreached.txt",
        Vec::from_iter(unknown).join(", no function ")
    );
    Ok(wasm)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `(module (func $first nop nop) (func $second nop))`, with a section of names.
    const MODULE: &[u8] =
        b"\0asm\x01\0\0\0\x01\x04\x01\x60\0\0\x03\x03\x02\0\0\x0a\x0a\x02\x04\0\x01\x01\x0b\x03\0\x01\x0b\
          \0\x17\x04name\x01\x10\x02\0\x05first\x01\x06second";

    #[test]
    fn a_named_function_becomes_a_trap() {
        let cut = cut(MODULE.to_vec(), "# why\nfirst # here\n").unwrap();
        let trapped: Vec<usize> = (0..cut.len()).filter(|&at| cut[at] != MODULE[at]).collect();
        assert_eq!(trapped.len(), 1);
        assert!(cut[trapped[0] - 1..].starts_with(b"\0\0\x01\x0b\x03\0\x01\x0b"));
    }

    #[test]
    fn a_name_that_no_function_has_is_told() {
        let error = cut(MODULE.to_vec(), "second\nthird").unwrap_err();
        assert_eq!(
            error.to_string(),
            "the module has no function third: take it out of unreached.txt"
        );
        assert!(cut(b"\0asm\x01\0\0\0".to_vec(), "first").is_err());
    }
}
