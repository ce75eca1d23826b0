use super::super::call::{Call, Refusal};
use crate::tool::{AFTER_BEGIN, AFTER_COMMIT, BEFORE_BEGIN, BEFORE_COMMIT};

/// Looks in the dictionary before the transaction and writes there after it.
pub(super) async fn serve(call: &Call) -> Result<i64, Refusal> {
    if let Some(record) = call.remembered() {
        return record.answer(call);
    }
    call.reach(BEFORE_BEGIN).await;
    call.run("BEGIN IMMEDIATE", &[]).await?;
    call.reach(AFTER_BEGIN).await;
    let ticket = call.open_ticket().await?;
    call.reach(BEFORE_COMMIT).await;
    call.run("COMMIT", &[]).await?;
    call.remember(ticket);
    call.reach(AFTER_COMMIT).await;
    Ok(ticket)
}
