"""What several processes on one store need: who leads, who follows, and what goes from one to the others."""
