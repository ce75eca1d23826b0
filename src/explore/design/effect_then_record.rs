use super::super::call::Parameter::{Key, Payload, Response};
use super::super::call::{Call, Refusal};
use crate::tool::{AFTER_BEGIN, AFTER_COMMIT, BEFORE_BEGIN, BEFORE_COMMIT, BEFORE_RECORD};

/// The lab's tool but for its second transaction: the mistake of recording afterwards.
pub(super) async fn serve(call: &Call) -> Result<i64, Refusal> {
    call.reach(BEFORE_BEGIN).await;
    call.run("BEGIN IMMEDIATE", &[]).await?;
    call.reach(AFTER_BEGIN).await;
    let recorded = call
        .find(
            "SELECT payload, response FROM requests WHERE key = ?1",
            &[Key],
        )
        .await?;
    if let Some(record) = recorded {
        let ticket = record.answer(call)?;
        call.run("COMMIT", &[]).await?;
        call.reach(AFTER_COMMIT).await;
        return Ok(ticket);
    }
    let ticket = call.open_ticket().await?;
    call.reach(BEFORE_COMMIT).await;
    call.run("COMMIT", &[]).await?;
    call.reach(BEFORE_RECORD).await;
    call.run("BEGIN IMMEDIATE", &[]).await?;
    call.write(
        "INSERT INTO requests(key, payload, response) VALUES (?1, ?2, ?3)",
        &[Key, Payload, Response(ticket)],
    )
    .await?;
    call.run("COMMIT", &[]).await?;
    call.reach(AFTER_COMMIT).await;
    Ok(ticket)
}
