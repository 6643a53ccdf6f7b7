import "../base.css";
