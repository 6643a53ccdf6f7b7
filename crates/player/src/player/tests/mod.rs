//! What a viewer sees, in worlds that go well and worlds that do not.

mod broken;
mod hostile;
mod live;
mod pathways;
mod playing;
mod steering;
mod telling;
