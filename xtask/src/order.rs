//! The order of the module's functions. gzip looks back 32 KB and no further, so functions that are alike are smaller
//! side by side.

use std::collections::VecDeque;

use anyhow::Result;
use wasm_encoder::{Encode, NameMap, NameSection, Section};
use wasmparser::{Parser, Payload, TypeRef};

/// How far back functions count as near, in bytes: somewhat less than gzip's window.
const NEAR: usize = 30_000;

/// How many bytes in a row two functions must share to be alike in them.
const RUNS: [usize; 2] = [4, 8];

/// Runs that more functions share than this tell nothing apart.
const MOST_SHARERS: usize = 200;

/// The module with a name for each function: the number of its place in the order that gzips small. wasm-opt can sort
/// functions by their names.
pub fn name_by_place(wasm: &[u8]) -> Result<Vec<u8>> {
    let mut imported = 0;
    let mut bodies = Vec::new();
    for payload in Parser::new(0).parse_all(wasm) {
        match payload? {
            Payload::ImportSection(imports) => {
                for import in imports.into_imports() {
                    if let TypeRef::Func(_) | TypeRef::FuncExact(_) = import?.ty {
                        imported += 1;
                    }
                }
            }
            Payload::CodeSectionEntry(body) => bodies.push(&wasm[body.range()]),
            _ => {}
        }
    }
    let mut places = vec![0; bodies.len()];
    for (place, body) in order(&bodies).into_iter().enumerate() {
        places[body] = place;
    }
    let mut functions = NameMap::new();
    for (index, place) in (imported..).zip(places) {
        functions.append(index, &format!("{place:06}"));
    }
    let mut names = NameSection::new();
    names.functions(&functions);
    let mut named = wasm.to_vec();
    named.push(names.id());
    names.encode(&mut named);
    Ok(named)
}

/// Bytes in a row that several bodies share.
struct Run {
    /// The fewer share it, the more it counts.
    weight: f64,
    sharers: Vec<usize>,
    /// How many of them are near.
    near: usize,
}

/// Which body stands first, second and so on: after each comes the one that has most in common, for its length, with
/// those near before it. Of floating-point functions only the square root is used, which is exact everywhere.
fn order(bodies: &[&[u8]]) -> Vec<usize> {
    let mut runs = Vec::new();
    let mut runs_of: Vec<Vec<usize>> = vec![Vec::new(); bodies.len()];
    for length in RUNS {
        let mut places: Vec<(&[u8], usize)> = bodies
            .iter()
            .enumerate()
            .flat_map(|(body, bytes)| bytes.windows(length).map(move |run| (run, body)))
            .collect();
        places.sort_unstable();
        places.dedup();
        for same in places.chunk_by(|a, b| a.0 == b.0) {
            if (2..MOST_SHARERS).contains(&same.len()) {
                let sharers: Vec<usize> = same.iter().map(|&(_, body)| body).collect();
                for &body in &sharers {
                    runs_of[body].push(runs.len());
                }
                runs.push(Run {
                    weight: (same.len() as f64).sqrt().recip(),
                    sharers,
                    near: 0,
                });
            }
        }
    }
    // Between the length, which would put the shortest first, and none, which would put the longest.
    let by_length: Vec<f64> = bodies
        .iter()
        .map(|bytes| {
            let root = (bytes.len() as f64).sqrt();
            root * root.sqrt() + 7.0
        })
        .collect();

    let mut near = VecDeque::new();
    let mut near_bytes = 0;
    let mut in_common = vec![0.0; bodies.len()];
    let mut left: Vec<usize> = (0..bodies.len()).collect();
    let mut order = Vec::with_capacity(bodies.len());
    loop {
        let alike = |body: usize| in_common[body] / by_length[body];
        // From the back, so that of equals the first is taken.
        let most = left
            .iter()
            .enumerate()
            .rev()
            .max_by(|(_, a), (_, b)| alike(**a).total_cmp(&alike(**b)));
        let Some((at, _)) = most else {
            return order;
        };
        let next = left.remove(at);
        order.push(next);
        near.push_back(next);
        near_bytes += bodies[next].len();
        for &run in &runs_of[next] {
            let run = &mut runs[run];
            run.near += 1;
            if run.near == 1 {
                run.sharers
                    .iter()
                    .for_each(|&body| in_common[body] += run.weight);
            }
        }
        while near_bytes > NEAR
            && let Some(far) = near.pop_front()
        {
            near_bytes -= bodies[far].len();
            for &run in &runs_of[far] {
                let run = &mut runs[run];
                run.near -= 1;
                if run.near == 0 {
                    run.sharers
                        .iter()
                        .for_each(|&body| in_common[body] -= run.weight);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alike_bodies_come_together() {
        let bodies = [
            "first kind of body",
            "another one",
            "some kind of body",
            "yet another one",
        ];
        assert_eq!(order(&bodies.map(str::as_bytes)), [0, 2, 1, 3]);
    }

    #[test]
    fn places_are_names() {
        // (module (func nop) (func nop))
        let wasm = b"\0asm\x01\0\0\0\x01\x04\x01\x60\0\0\x03\x03\x02\0\0\x0a\x09\x02\x03\0\x01\x0b\x03\0\x01\x0b";
        let named = name_by_place(wasm).unwrap();
        assert!(named.starts_with(wasm));
        assert!(named.ends_with(b"\x06000000\x01\x06000001"));
    }
}
