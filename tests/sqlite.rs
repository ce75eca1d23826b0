//! What SQLite can still do after all that is left out of it (`.cargo/config.toml`, `xtask/src/unreached.txt`).
#![cfg(not(target_family = "wasm"))]

use tool_retries::sim::World;

#[test]
fn what_designs_against_duplicates_need_is_there() {
    let db = World::new().start("caller").connect("test.db").unwrap();
    db.execute_batch(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, key TEXT UNIQUE, n INTEGER CHECK (n < 9))",
    )
    .unwrap();
    let n = |sql: &str| db.query_row(sql, [], |row| row.get::<_, i64>(0));
    let insert = "INSERT INTO t(key, n) VALUES ('a', 1), ('b', 2)";
    assert_eq!(db.execute(insert, []).unwrap(), 2);
    assert!(db.execute(insert, []).is_err());
    assert_eq!(
        db.execute("INSERT OR IGNORE INTO t(key, n) VALUES ('a', 1)", []),
        Ok(0)
    );
    let nothing = "INSERT INTO t(key, n) VALUES ('a', 1) ON CONFLICT DO NOTHING";
    assert_eq!(db.execute(nothing, []), Ok(0));
    let update = "INSERT INTO t(key, n) VALUES ('a', 1) ON CONFLICT(key) DO UPDATE SET n = n + 3 RETURNING n";
    assert_eq!(n(update), Ok(4));
    let absent =
        "INSERT INTO t(key, n) SELECT 'c', 5 WHERE NOT EXISTS (SELECT 1 FROM t WHERE key = 'c')";
    assert_eq!(
        (db.execute(absent, []), db.execute(absent, [])),
        (Ok(1), Ok(0))
    );
    assert_eq!(
        n("SELECT sum(n) FROM t WHERE key IN ('a', 'b', 'c')"),
        Ok(11)
    );
    assert!(db.execute("UPDATE t SET n = 9", []).is_err());
    assert_eq!(
        n("WITH u AS (SELECT 1 AS n UNION SELECT 2) SELECT count(*) FROM u"),
        Ok(2)
    );
}
