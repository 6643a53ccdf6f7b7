//! A viewer's experience, in worlds that go well and in worlds that do not.

mod broken;
mod hostile;
mod live;
mod pathways;
mod playing;
mod steering;
mod telling;
